"""A start leaves one report: a table for people, a JSON file for scripts, and at most a hundred of those."""

import json
import logging
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support import KIND, BrokenText, DemoEngine, Site, raises
from warmcore import Difference, Report, Session, Usage
from warmcore.identity import Absent
from warmcore.report import Event, Events, KindReport
from warmcore.tables import render


def event(outcome: Any = "hit", name: Any = "look-up", **changes: Any) -> Event:
    return Event(**{"at": 1.0, "name": name, "kind": KIND, "key": "k", "store": "near", "outcome": outcome} | changes)


class Shy:
    """An object that can't be shown."""

    def __repr__(self) -> str:
        raise BrokenText


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    site = Site(tmp_path / "site", monkeypatch)
    site.install_doubles()
    return site


def start(folder: Path, tmp_path: Path, **policy: Any) -> Report:
    """Start an engine whose reports go to `folder`."""
    engine = DemoEngine(tmp_path / "tables")
    config = {
        "caches": {KIND: {"folder": str(engine.folder)}},
        "stores": {"near": {"plugin": "memory"}},
        "policy": {"reports": str(folder), **policy},
    }
    report = Session(config).start(engine.context())
    assert engine.runs == 1
    return report


def test_look_ups_are_counted_by_store_and_outcome() -> None:
    events = [event("hit"), event("miss"), event("miss"), event("stored", "publish"), event("error", store="far")]
    counts = Report("default", events=events).look_ups()
    assert counts == {("near", "hit"): 1, ("near", "miss"): 2, ("far", "error"): 1}
    assert sum(counts.values()) == 4


def test_each_start_leaves_one_json_file_that_says_all_of_it(site: Site, tmp_path: Path) -> None:
    report = start(tmp_path / "reports", tmp_path, namespace="tenant")
    assert report.path is not None
    written = json.loads(report.path.read_text())
    assert [written["namespace"], written["off"], written["problems"], written["id"]] == ["tenant", None, [], report.id]
    assert [item["outcome"] for item in written["events"]] == [item.outcome for item in report.events]
    (kind,) = written["kinds"]
    assert (kind["kind"], kind["outcome"], kind["key"]) == (KIND, "miss", report.kinds[0].key)
    assert kind["identity"] == report.kinds[0].identity != {}
    assert kind["usage"] == {"used": ["gemm.json", "norm.json"], "unused": [], "missed": [], "unknown": None}


def test_json_holds_what_plain_json_has_no_word_for() -> None:
    kind = KindReport(KIND, differs=[Difference("gpu", Absent.ABSENT, "H200")], usage=Usage(unknown="can't tell"))
    report = Report("default", kinds=[kind], path=Path("/x"))
    assert json.loads(report.to_json())["kinds"][0]["differs"] == [
        {"factor": "gpu", "left": "(absent)", "right": "H200"}
    ]


def test_json_can_be_written_whatever_a_cache_says_was_used() -> None:
    loop: list[Any] = []
    loop.append(loop)
    odd: Any = (threading.Lock(), {1, 2}, object(), Shy(), loop, float("nan"), "\ud800", {1: 2, None: b"3"})
    report = Report("default", kinds=[KindReport(KIND, usage=Usage(used=odd))])
    assert len(json.loads(report.to_json())["kinds"][0]["usage"]["used"]) == len(odd)


def test_a_hundred_reports_are_kept_and_nothing_else_is_touched(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    old = [f"{n:015d}-{n:012x}.json" for n in range(130)]
    mine = ["0000-bench.json", "2024-01-31-eval.json", "1-a.json", "notes.txt", f"{7:015d}-{7:012x}.json.bak"]
    for name in [*old, *mine]:
        (folder / name).write_text("{}")
    report = start(folder, tmp_path)
    assert report.path is not None
    assert sorted(path.name for path in folder.iterdir()) == sorted([*old[-99:], *mine, report.path.name])


def test_reports_of_one_millisecond_do_not_replace_each_other(site: Site, tmp_path: Path) -> None:
    first, second = (start(tmp_path / "reports", tmp_path) for _ in range(2))
    assert first.path != second.path


@pytest.mark.parametrize(
    "trouble", ["a file", "under a file", "a dangling link", "a link to itself", "a name too long"]
)
def test_a_folder_that_cannot_be_written_is_one_warning(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, trouble: str
) -> None:
    folder = tmp_path / "reports"
    if trouble == "a file":
        folder.write_text("mine")
    elif trouble == "under a file":
        folder.write_text("mine")
        folder /= "below"
    elif trouble == "a dangling link":
        folder.symlink_to(tmp_path / "nowhere" / "at" / "all")
    elif trouble == "a link to itself":
        folder.symlink_to(folder)
    else:
        folder = tmp_path / ("x" * 300)
    report = start(folder, tmp_path)
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert report.path is None
    assert record.getMessage().startswith("no report was written: ")
    assert str(folder)[:200] in record.getMessage()


def test_without_a_home_the_report_is_one_warning(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    report = start(Path(), tmp_path, reports="")
    assert report.path is None
    assert "set HOME, XDG_CACHE_HOME or [policy] reports" in caplog.text


def test_reports_go_to_the_cache_folder_of_the_user_unless_told_otherwise(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    report = start(Path(), tmp_path, reports="")
    assert report.path is not None
    assert report.path.parent == tmp_path / "cache" / "warmcore" / "reports"


def test_a_working_folder_that_is_gone_is_no_reason_not_to_start(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        start(Path(), tmp_path, reports="")
    finally:
        os.chdir(tmp_path)


def test_a_folder_that_may_not_be_looked_into_is_no_reason_not_to_start(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", refused)
    start(tmp_path / "reports", tmp_path)


def test_a_report_is_no_wider_open_than_the_umask_says(site: Site, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        report = start(tmp_path / "reports", tmp_path)
    finally:
        os.umask(before)
    assert report.path is not None
    assert stat.S_IMODE(report.path.stat().st_mode) == 0o600


def test_the_table_has_a_line_for_each_event_and_says_what_was_saved_and_used() -> None:
    kind = KindReport(KIND, outcome="hit", store="near", seconds_saved=41.239, usage=Usage(("a", "b"), ("c",)))
    events = [
        event("miss", store="disk"),
        event("hit", bytes=12345, seconds=0.0256),
        event("done", "install", store=""),
    ]
    lines = Report("default", kinds=[kind], events=events, problems=["store 'x': gone"]).table().splitlines()
    assert lines[0].split() == ["kind", "step", "store", "outcome", "seconds", "bytes", "saved", "used"]
    assert lines[2].split() == [KIND, "look-up", "near", "hit", "0.026", "12,345", "41.24", "s", "2", "of", "3"]
    assert [len(lines), lines[4]] == [5, "problem: store 'x': gone"]


def test_what_is_not_known_is_called_unknown() -> None:
    kind = KindReport(KIND, outcome="hit", store="near", usage=Usage(unknown="can't tell"))
    assert Report("default", kinds=[kind], events=[event()]).table().splitlines()[1].split()[-2:] == ["unknown"] * 2


def test_a_reason_of_many_lines_keeps_the_table_in_shape() -> None:
    report = Report("default", kinds=[KindReport(KIND)], events=[event("error", reason="one\ntwo\r\nthree")])
    assert len(report.table().splitlines()) == 2


def test_the_table_of_a_start_that_was_off_says_why() -> None:
    assert Report("default", off="WARMCORE_DISABLE is set").table() == "warmcore is off: WARMCORE_DISABLE is set"


def test_the_table_names_the_nearest_entry_and_what_differs() -> None:
    differs = [Difference("gpu", "H200", "H100"), Difference("tp", 2, Absent.ABSENT)]
    kind = KindReport(KIND, nearest="v1/demo/x/all", differs=differs)
    table = Report("default", kinds=[kind], events=[event("miss")]).table()
    assert table.splitlines()[-1] == (
        "demo: nearest stored entry v1/demo/x/all differs in "
        "gpu is 'H200' here, 'H100' there; tp is 2 here, (absent) there"
    )


def test_empty_columns_are_left_out() -> None:
    assert render(("a", "b", "c"), [("1", "", "3"), ("22", "", "")]) == ["a   c", "1   3", "22"]


@pytest.mark.parametrize(
    ("outcome", "level"), [("reject", "WARNING"), ("error", "WARNING"), ("timeout", "WARNING"), ("hit", "DEBUG")]
)
def test_an_event_is_logged_as_loud_as_its_outcome(caplog: pytest.LogCaptureFixture, outcome: str, level: str) -> None:
    caplog.set_level(logging.DEBUG, "warmcore")
    Events().emit(event(outcome, reason="why"))
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == (level, f"demo look-up near: {outcome}: why (0.000 s)")


def test_warmcore_is_quiet_by_default() -> None:
    logger = logging.getLogger("warmcore")
    assert (logger.level, logger.handlers) == (logging.NOTSET, [])


@pytest.mark.parametrize("error", [ValueError("bug"), BrokenText(), SystemExit(1), KeyError("x")])
def test_a_listener_that_fails_is_named_and_keeps_no_other_from_hearing(
    caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    told: list[Event] = []
    Events([raises(error), told.append]).emit(event())
    assert told == [event()]
    assert f"listener failed: {type(error).__name__}" in caplog.text


def test_a_real_interrupt_in_a_listener_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        Events([raises(KeyboardInterrupt())]).emit(event())


def test_the_report_of_a_start_that_failed_in_the_engines_warm_up_is_written(site: Site, tmp_path: Path) -> None:
    engine = DemoEngine(tmp_path / "tables")
    config = {
        "caches": {KIND: {"folder": str(engine.folder)}},
        "stores": {"near": {"plugin": "memory"}},
        "policy": {"reports": str(tmp_path / "reports")},
    }
    with pytest.raises(ZeroDivisionError):
        Session(config).start(engine.context(warm_ups={KIND: lambda: 1 // 0}))
    (path,) = (tmp_path / "reports").iterdir()
    assert json.loads(path.read_text())["kinds"][0]["outcome"] == "miss"
