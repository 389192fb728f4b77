"""`warmcore list-plugins`, and the commands that plugins add: one broken plugin is named, and nothing else suffers."""

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.cli_support import Cli, run_inside, run_outside
from tests.support import Site

STORE = """
from warmcore import hookimpl
class Store:
    @hookimpl
    def store_get(self, key, sink, fresh): ...
    @hookimpl
    def store_put(self, key, source, expect, fence): ...
"""
MISSPELT = STORE + "    @hookimpl\n    def store_lst(self, prefix): ...\n"
SHORT = STORE.replace("sink, fresh", "sink")
UNMARKED = STORE.replace("    @hookimpl\n    def store_put", "    def store_put")

BROKEN = {
    "raises": ("raise ImportError('libacme.so.1 is missing')", "ImportError: libacme.so.1 is missing"),
    "lacks": ("Other = 1", "AttributeError"),
    "no-python": ("def (", "SyntaxError"),
    "exits": ("import sys; sys.exit(3)", "SystemExit"),
    "ends": ("import os; os._exit(4)", "ended its process with status 4"),
    "crashes": ("import os; os.abort()", "killed by SIGABRT"),
    "sleeps": ("import time; time.sleep(60)", "within 5 s"),
    "no-class": ("Store = 1", "is a int, expected a class"),
    "misspelt": (MISSPELT, "did you mean store_list?"),
    "short": (SHORT, "store_get takes (key, sink), expected (key, sink, fresh)"),
    "unmarked": (UNMARKED, "put @hookimpl above it"),
}
PRINTS = """
import os, sys
print("noise on stdout")
os.write(1, b"more of it")
os.system("sleep 30 & echo from a child")
import atexit, time
atexit.register(time.sleep, 60)
"""

COMMAND = """
import click
@click.command()
@click.option("--times", default=1)
def hello(times):
    click.echo("hello " * times)
    if times > 2:
        raise click.ClickException("too many")
    return 5
@click.command()
def fails():
    raise KeyError("a bug")
"""


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    return partial(run_inside, capfd)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path / "site", monkeypatch)


def row(ran: object, name: str) -> dict[str, object]:
    rows: list[dict[str, object]] = ran.json["plugins"]  # type: ignore[attr-defined]  # a Ran
    return next(row for row in rows if row["name"] == name)


def test_it_lists_metadata_and_imports_no_plugin(cli: Cli, site: Site) -> None:
    module = site.install("acme-store", "raise SystemExit('imported')", version="2.1", stores={"acme": ":Acme"})
    ran = cli("list-plugins")
    assert ran.code == 0 and module not in sys.modules
    assert f"acme  warmcore.stores  acme-store  2.1  {module}:Acme" in " ".join(ran.out.split()).replace(" ", "  ")
    assert row(cli("list-plugins", "--json"), "acme") == {
        "name": "acme",
        "group": "warmcore.stores",
        "role": "store",
        "target": f"{module}:Acme",
        "distribution": "acme-store",
        "version": "2.1",
        "problem": None,
    }


def test_metadata_alone_tells_twins_and_plugins_for_another_core(cli: Cli, site: Site) -> None:
    site.install("one", stores={"twin": ":A"})
    site.install("two", stores={"twin": ":B"})
    site.install("old", requires=["warmcore<0.1"], stores={"ancient": ":C"})
    site.install("far", requires=["unrelated>99"], stores={"fine": ":D"})
    ran = cli("list-plugins", "--json")
    assert ran.code == 1
    assert "taken by" in str(row(ran, "twin")["problem"])
    assert "made for warmcore <0.1" in str(row(ran, "ancient")["problem"])
    assert row(ran, "fine")["problem"] is None


def test_loading_names_each_broken_plugin_and_spares_the_others(site: Site) -> None:
    for name, (code, _) in BROKEN.items():
        site.install(name, code, stores={name: ":Store"})
    site.install("prints", PRINTS + STORE, stores={"prints": ":Store"})
    site.install("good", STORE, stores={"good": ":Store"})
    started = time.monotonic()
    ran = run_outside("list-plugins", "--load", "--json", path=site.folder)
    assert ran.code == 1 and time.monotonic() - started < 30
    for name, (_, cause) in BROKEN.items():
        assert row(ran, name)["status"] == "failed" and cause in str(row(ran, name)["problem"])
    for name in ("good", "prints", "disk"):
        assert row(ran, name)["status"] == "ok" and {"store_get", "store_put"} <= set(row(ran, name)["hooks"])  # type: ignore[call-overload]  # a list
    assert "noise on stdout" in ran.err and "from a child" in ran.err


def test_loading_refuses_while_switched_off(cli: Cli, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARMCORE_DISABLE", "1")
    assert cli("list-plugins").code == 0
    ran = cli("list-plugins", "--load")
    assert (ran.code, ran.out) == (2, "") and "WARMCORE_DISABLE" in ran.err


def test_it_is_quick_and_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom warmcore.cli import main\nmain(['list-plugins'])\nprint(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert not loaded & {"torch", "triton", "grpc", "zstandard", "flashinfer", "msgspec", "pluggy", "tqdm", "numpy"}
    assert not {name for name in loaded if name.startswith("warmcache_")}
    assert "disk" in done.stdout


def test_added_commands_stand_in_the_help_without_being_imported(cli: Cli, site: Site) -> None:
    module = site.install("acme", "raise SystemExit('imported')", commands={"acme-push": ":push", "ls": ":shadow"})
    ran = cli("--help")
    assert ran.code == 0 and module not in sys.modules
    assert "acme-push  from acme 1.0" in ran.out
    assert ran.out.count("\n  ls ") == 1


def test_an_added_command_runs_with_a_stdout_of_its_own(cli: Cli, site: Site) -> None:
    site.install("acme", COMMAND, commands={"hello": ":hello", "fails": ":fails"})
    ran = cli("hello", "--times", "2")
    assert (ran.code, ran.out) == (0, "hello hello \n")
    assert cli("hello", "--times", "3").err == "warmcore: too many\n"
    assert "unexpected: KeyError: 'a bug'" in cli("fails").err
    assert "Usage: warmcore hello" in cli("hello", "--help").out


def test_no_added_command_is_loaded_while_switched_off(cli: Cli, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    module = site.install("acme", COMMAND, commands={"hello": ":hello"})
    monkeypatch.setenv("WARMCORE_DISABLE", "1")
    ran = cli("hello")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1) and module not in sys.modules
    assert "hello" in cli("--help").out


@pytest.mark.parametrize("code", ["raise ImportError('broken')", "import sys; sys.exit(1)", "push = 1", "Other = 1"])
def test_a_broken_added_command_is_named_in_one_line(cli: Cli, site: Site, code: str) -> None:
    site.install("acme", code, commands={"push": ":push"})
    ran = cli("push")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "command 'push' (acme 1.0)" in ran.err
    assert cli("--help").code == 0 and cli("list-plugins").code == 0


def test_loading_tries_added_commands_too(cli: Cli, site: Site) -> None:
    site.install("acme", COMMAND, commands={"hello": ":hello", "gone": ":gone"})
    ran = cli("list-plugins", "--load", "--json")
    assert row(ran, "hello")["status"] == "ok"
    assert "AttributeError" in str(row(ran, "gone")["problem"])
