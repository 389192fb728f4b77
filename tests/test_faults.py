"""Whole processes among faults: the engine starts, ends when it should, and leaves nothing good behind broken."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import KIND, DemoEngine, Site
from warmcore import Report, Session

ROOT = Path(__file__).parent.parent

PRELUDE = """
import json, os, sys, time
from pathlib import Path
from tests.support import *
from warmcore import Config, Session
from warmcore import session
from warmcore.assembly import Assembly
from warmcore.config import Policy
from warmcore.settings import Duration

def open_session(stores, cache, reports=None, **policy):
    session.assemble = lambda config: Assembly(list(stores), [Cache(KIND, cache)])
    return Session(Config(caches={KIND: {}}, policy=Policy(reports=reports, **policy)))

def say(*values):
    print(json.dumps(values), flush=True)
"""


def run(code: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program of a test to its end; it may take 20 s."""
    command = [sys.executable, "-c", PRELUDE + code, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, **options)


def said(done: subprocess.CompletedProcess[str]) -> list[Any]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


HANGING = """
folder = Path(sys.argv[1])
faults = dict.fromkeys(("store_get", "store_put", "store_list", "store_close"), hangs)
stores = [store_of(FaultyStore(**faults), str(n), timeout=0.1) for n in range(int(sys.argv[2]))]
engine = DemoEngine(folder)
with open_session(stores, DemoCache(folder), folder / "reports", budget=Duration(0.3)) as session:
    report = session.start(engine.context())
    say(report.kinds[0].outcome, engine.runs)
    say(time.monotonic())
    if sys.argv[3] == "leave":
        sys.exit(0)
"""


@pytest.mark.parametrize("count", [1, 30])
def test_a_process_ends_within_a_second_of_its_report_with_every_store_hanging(tmp_path: Path, count: int) -> None:
    code = HANGING.replace("with open_session", "session = open_session").replace(" as session:", "\nif True:")
    done = run(code, tmp_path, count, "leave")
    ended = time.monotonic()
    first, (reported,) = said(done)
    assert first == ["timeout", 1]
    assert ended - reported < 2.0  # 1 s on a machine that has nothing else to do


def test_closing_hanging_stores_takes_a_second_in_all(tmp_path: Path) -> None:
    done = run(HANGING, tmp_path, 5, "close")
    ended = time.monotonic()
    _, (reported,) = said(done)
    assert ended - reported < 3.0


INTERRUPTED = """
folder = Path(sys.argv[1])
def slow_put(key, source, expect, fence):
    say("putting")
    hangs()
store = FaultyStore(**{sys.argv[2]: hangs if sys.argv[2] == "store_get" else slow_put})
engine = DemoEngine(folder)
say("started")
try:
    open_session([store_of(store, timeout=60.0)], DemoCache(folder), folder / "reports", budget=Duration(60)).start(
        engine.context()
    )
finally:
    say(engine.runs, len(list((folder / "reports").glob("*.json"))))
"""


@pytest.mark.parametrize(("hook", "line"), [("store_get", "started"), ("store_put", "putting")])
def test_ctrl_c_in_the_middle_of_a_store_call_passes_at_once(tmp_path: Path, hook: str, line: str) -> None:
    command = [sys.executable, "-c", PRELUDE + INTERRUPTED, str(tmp_path), hook]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        assert child.stdout is not None
        while line not in child.stdout.readline():
            pass
        time.sleep(0.3)
        started = time.monotonic()
        child.send_signal(signal.SIGINT)
        rest, errors = child.communicate(timeout=20)
        assert time.monotonic() - started < 2.0
    assert (child.returncode, "KeyboardInterrupt" in errors) == (-signal.SIGINT, True)
    assert json.loads(rest.splitlines()[-1])[1] == 1


EXITING = """
folder = Path(sys.argv[1])
engine = DemoEngine(folder)
stores = [store_of(FaultyStore(**{hook: raises(SystemExit(9)) for hook in ("store_get", "store_put", "store_close")}))]
with open_session(stores, DemoCache(folder), folder / "reports") as session:
    report = session.start(engine.context())
say(engine.runs, [event.outcome for event in report.events if event.store == "near"])
"""


def test_a_store_that_calls_sys_exit_ends_nothing(tmp_path: Path) -> None:
    assert said(run(EXITING, tmp_path)) == [[1, ["error", "error"]]]


HOMELESS = """
folder = Path(sys.argv[1])
sys.path.insert(0, sys.argv[2])

def start(name):
    engine = DemoEngine(folder / name)
    config = {"caches": {KIND: {"folder": str(folder / name)}}, "stores": {"local": {"plugin": "disk"}}}
    with Session(config) as session:
        report = session.start(engine.context())
    return engine.runs, report.off, report.path is not None

# Once as we are, so that all that is imported late is here when the modules themselves can't be read any more.
os.environ["XDG_CACHE_HOME"] = str(folder / "first")
start("first")
os.setgroups([])
os.setgid(12345)
os.setuid(12345)
for number, variables in enumerate(json.loads(sys.argv[3])):
    for name in ("HOME", "XDG_CACHE_HOME", "USER", "LOGNAME"):
        os.environ.pop(name, None)
    os.environ.update(variables)
    say(*start(str(number)))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become somebody else")
def test_a_random_user_without_a_home_of_its_own_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "closed").mkdir(mode=0o700)
        site = Site(folder / "site", monkeypatch)
        site.install_doubles()
        closed = {"HOME": str(folder / "closed")}
        environments = [{}, {"HOME": ""}, {"HOME": "/nowhere"}, closed, {**closed, "WARMCORE_DISABLE": "1"}]
        done = run(HOMELESS, folder, site.folder, json.dumps(environments))
    assert said(done) == [[1, None, False]] * 4 + [[1, "WARMCORE_DISABLE is set", False]]
    assert done.stderr.count("no report was written") == 4


LOUD_IMPORT = """
sys.path.insert(0, sys.argv[1])
with Session({"caches": [KIND], "stores": json.loads(sys.argv[2])}) as session:
    say(session.off, len(session._made.problems))
"""


def test_a_process_with_a_plugin_that_sleeps_at_import_goes_on_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, monkeypatch)
    site.install_doubles()
    site.install("sleepy", "import threading\nthreading.Event().wait()\n", stores={"sleepy": ":X"})
    code = "from warmcore import discovery\ndiscovery.LOAD_SECONDS = 0.2\n" + LOUD_IMPORT.replace(
        "[KIND]", '{KIND: {"folder": sys.argv[1]}}'
    )
    started = time.monotonic()
    assert said(run(code, tmp_path, json.dumps({"a": {"plugin": "sleepy"}, "b": {"plugin": "memory"}}))) == [[None, 1]]
    assert time.monotonic() - started < 10


# The real disk store under the whole of it.


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    pytest.importorskip("warmcache_disk")
    site = Site(tmp_path / "site", monkeypatch)
    site.install_doubles()
    return site


def on_disk(tmp_path: Path, name: str, *folders: str, **store: object) -> tuple[DemoEngine, Report]:
    """Start one engine, with its own working folder, over one disk store or several."""
    engine = DemoEngine(tmp_path / name)
    stores = {folder: {"plugin": "disk", "path": str(tmp_path / folder), **store} for folder in folders or ("store",)}
    config = {
        "caches": {KIND: {"folder": str(engine.folder)}},
        "chain": list(stores),
        "stores": stores,
        "policy": {"reports": str(tmp_path / "reports")},
    }
    with Session(config) as session:
        report = session.start(engine.context())
    assert engine.runs == 1
    return engine, report


def objects(folder: Path) -> list[Path]:
    """Return the files of a disk store that hold artifacts."""
    return [path for path in folder.rglob("*") if path.is_file() and b"warmcore-sealed/" in path.read_bytes()]


def test_two_replicas_share_a_disk_store(site: Site, tmp_path: Path) -> None:
    first, _ = on_disk(tmp_path, "a")
    second, report = on_disk(tmp_path, "b")
    assert (first.tuned, second.tuned, report.kinds[0].outcome) == (["gemm", "norm"], [], "hit")


@pytest.mark.parametrize("fault", ["empty", "random", "cut", "flipped", "gone"])
def test_a_spoilt_disk_store_is_healed_by_the_next_start(site: Site, tmp_path: Path, fault: str) -> None:
    on_disk(tmp_path, "a")
    (path,) = objects(tmp_path / "store")
    data = path.read_bytes()
    spoilt = {
        "empty": b"",
        "random": random.Random(1).randbytes(len(data)),
        "cut": data[:-9],
        "flipped": data[:-2] + bytes([data[-2] ^ 1]) + data[-1:],
    }
    path.unlink() if fault == "gone" else path.write_bytes(spoilt[fault])
    engine, report = on_disk(tmp_path, "b")
    assert engine.tuned == ["gemm", "norm"]
    assert report.kinds[0].outcome in ("miss", "reject")
    engine, report = on_disk(tmp_path, "c")
    assert (engine.tuned, report.kinds[0].outcome) == ([], "hit")


def test_a_spoilt_near_disk_is_healed_from_the_far_one(site: Site, tmp_path: Path) -> None:
    on_disk(tmp_path, "a", "near", "far")
    (path,) = objects(tmp_path / "near")
    path.write_bytes(path.read_bytes()[:-9])
    _, report = on_disk(tmp_path, "b", "near", "far")
    assert report.kinds[0].store == "far"
    _, report = on_disk(tmp_path, "c", "near", "far")
    assert report.kinds[0].store == "near"


@pytest.mark.parametrize("trouble", ["a file", "a dangling link"])
def test_a_disk_store_that_is_no_folder_is_an_error_and_the_far_one_serves(
    site: Site, tmp_path: Path, trouble: str
) -> None:
    on_disk(tmp_path, "a", "far")
    if trouble == "a file":
        (tmp_path / "near").write_text("mine")
    else:
        (tmp_path / "near").symlink_to(tmp_path / "nowhere")
    engine, report = on_disk(tmp_path, "b", "near", "far")
    assert (engine.tuned, report.kinds[0].store) == ([], "far")
    near = [event for event in report.events if event.store == "near" and event.name == "look-up"]
    assert near[0].outcome in ("error", "miss")
    assert (near[0].outcome == "miss") or near[0].reason


def test_two_replicas_that_start_at_once_leave_one_good_artifact(site: Site, tmp_path: Path) -> None:
    code = """
sys.path.insert(0, sys.argv[1])
engine = DemoEngine(Path(sys.argv[2]), ["gemm", sys.argv[3]])
config = {
    "caches": {KIND: {"folder": sys.argv[2]}},
    "stores": {"store": {"plugin": "disk", "path": sys.argv[4]}},
    "policy": {"reports": sys.argv[2] + "-reports"},
}
with Session(config) as session:
    session.start(engine.context())
"""
    command = [sys.executable, "-c", PRELUDE + code, str(site.folder)]
    children = [
        subprocess.Popen(
            [*command, str(tmp_path / name), op, str(tmp_path / "store")],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, op in (("x", "norm"), ("y", "rope"))
    ]
    assert [(child.communicate(timeout=20)[1], child.returncode) for child in children] == [("", 0)] * 2
    engine = DemoEngine(tmp_path / "z", ["gemm", "norm", "rope"])
    config: dict[str, Any] = {
        "caches": {KIND: {"folder": str(engine.folder)}},
        "stores": {"store": {"plugin": "disk", "path": str(tmp_path / "store")}},
        "policy": {"reports": str(tmp_path / "reports")},
    }
    Session(config).start(engine.context())
    assert engine.tuned == []


IN_A_MOUNT = """
import subprocess
folder = Path(sys.argv[1])
sys.path.insert(0, sys.argv[2])

def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)

def start(name):
    engine = DemoEngine(folder / name)
    config = {
        "caches": {KIND: {"folder": str(folder / name)}},
        "stores": {"local": {"plugin": "disk", "path": str(folder / "mount" / "store")}},
        "policy": {"reports": str(folder / "reports")},
    }
    with Session(config) as session:
        report = session.start(engine.context())
    published = [[event.outcome, event.reason] for event in report.events if event.name == "publish"]
    say(engine.runs, report.kinds[0].outcome, published)

"""
FULL = """
mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", folder / "mount")
(folder / "mount" / "filler").write_bytes(bytes(64 << 10))
start("second")
"""
READ_ONLY = """
mount("-t", "tmpfs", "tmpfs", folder / "mount")
start("first")
mount("-o", "remount,ro", "tmpfs", folder / "mount")
start("second")
"""
READ_ONLY_ROOT = """
(folder / "second").mkdir()
mount("-t", "tmpfs", "tmpfs", folder / "second")
mount("-o", "remount,bind,ro", "/")
start("second")
"""


@pytest.mark.parametrize(
    ("program", "outcome", "publish"),
    [(FULL, "miss", "error"), (READ_ONLY, "hit", "unchanged"), (READ_ONLY_ROOT, "miss", "error")],
    ids=["full", "read-only", "read-only root"],
)
def test_a_file_system_that_takes_nothing_is_one_reason_and_the_engine_starts(
    site: Site, tmp_path: Path, program: str, outcome: str, publish: str
) -> None:
    (tmp_path / "mount").mkdir()
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    command = [*unshare, sys.executable, "-B", "-c", PRELUDE + IN_A_MOUNT + program, str(tmp_path), str(site.folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    runs, found, published = said(done)[-1]
    ((outcome_there, reason),) = published
    assert (runs, found, outcome_there) == (1, outcome, publish)
    assert len(reason.splitlines()) == 1
    assert str(tmp_path / "mount") in reason or publish == "unchanged"
