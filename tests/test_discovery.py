"""What is installed is read from metadata alone; whatever is broken is named, and nothing else suffers from it."""

import sys
from pathlib import Path

import pytest

from tests.support import Site
from warmcore import PluginError, discovery
from warmcore.discovery import Found, find_plugins, load

GOOD = "class Good: pass\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path / "site", monkeypatch)


def found(name: str, role: str = "store") -> Found:
    return next(item for item in find_plugins(role) if item.name == name)


def why_not(name: str) -> str:
    with pytest.raises(PluginError) as caught:
        load(found(name))
    return str(caught.value)


def test_a_plugin_is_found_with_its_distribution_and_not_imported(site: Site) -> None:
    module = site.install("acme-store", "raise SystemExit\n", version="2.1", stores={"acme": ":Good"})
    assert found("acme") == Found("store", "acme", f"{module}:Good", "acme-store", "2.1", None)
    assert str(found("acme")) == "store 'acme' (acme-store 2.1)"
    assert module not in sys.modules


def test_each_role_has_its_group(site: Site) -> None:
    site.install(
        "all", GOOD, stores={"a": ":Good"}, caches={"b": ":Good"}, extensions={"c": ":Good"}, commands={"d": ":x"}
    )
    ours = {(item.role, item.name) for item in find_plugins() if item.distribution == "all"}
    assert ours == {("store", "a"), ("cache", "b"), ("extension", "c"), ("command", "d")}


def test_plugins_come_sorted_by_role_and_name(site: Site) -> None:
    site.install("zz", GOOD, stores={"zz-b": ":Good", "zz-a": ":Good"}, caches={"zz-c": ":Good"})
    listed = [(item.role, item.name) for item in find_plugins()]
    assert listed == sorted(listed)


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "Metadata-Version: 2.1\n",
        "Name: broken\n",
        "\x00\x01",
        "Name: broken\nVersion: 1.0\nRequires-Dist: warmcore @@ 1\n",
    ],
)
def test_broken_metadata_of_another_distribution_hides_nothing(site: Site, metadata: str) -> None:
    site.install("broken", GOOD, metadata=metadata, stores={"good": ":Good", "broken": ":Good"})
    site.install("good", GOOD, stores={"other": ":Good"})
    assert load(found("other")).__name__ == "Good"


def test_two_nameless_distributions_with_one_plugin_stop_nothing(site: Site) -> None:
    site.install("first", GOOD, metadata="Version: 1.0\n", stores={"twin": ":Good"})
    site.install("second", GOOD, stores={"twin": ":Good", "other": ":Good"})
    assert load(found("other")).__name__ == "Good"


@pytest.mark.parametrize("text", [b"[warmcore.stores]\nnonsense\n", b"\xff\xfe", b"no section\n"])
def test_broken_entry_points_of_another_distribution_hide_nothing(site: Site, text: bytes) -> None:
    site.install("broken", GOOD, stores={"broken": ":Good"})
    next(site.folder.glob("broken-*.dist-info/entry_points.txt")).write_bytes(text)
    site.install("good", GOOD, stores={"other": ":Good"})
    assert load(found("other")).__name__ == "Good"


def test_an_unmet_requirement_elsewhere_has_no_effect(site: Site) -> None:  # PL-03
    site.install("conflict", GOOD, requires=["surely-not-installed>=99"], stores={"conflict": ":Good"})
    site.install("bystander", requires=["pytest<1"])
    assert load(found("conflict")).__name__ == "Good"


def test_two_distributions_with_one_name_are_both_named_and_neither_is_used(site: Site) -> None:
    site.install("first", GOOD, stores={"twin": ":Good"})
    site.install("second", GOOD, stores={"twin": ":Good"})
    assert {item.problem for item in find_plugins("store") if item.name == "twin"} == {
        "its name is also taken by first: uninstall one",
        "its name is also taken by second: uninstall one",
    }
    assert "first" in why_not("twin")
    assert "second" in why_not("twin")


def test_one_name_in_two_roles_is_no_clash(site: Site) -> None:
    site.install("both", GOOD, stores={"same": ":Good"}, caches={"same": ":Good"})
    assert found("same").problem is None
    assert found("same", "cache").problem is None


def test_a_distribution_that_stands_twice_on_the_path_counts_once(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.install("editable", GOOD, stores={"dear": ":Good"})
    Site(tmp_path / "again", monkeypatch).install("editable", GOOD, version="2.0", stores={"dear": ":Good"})
    assert [(item.version, item.problem) for item in find_plugins("store") if item.name == "dear"] == [("2.0", None)]


@pytest.mark.parametrize("requirement", ["warmcore>=0.2,<0.3", "warmcore (>=9)", "Warmcore==0.0.1"])
def test_a_plugin_for_another_core_says_which(site: Site, requirement: str) -> None:
    site.install("late", GOOD, requires=[requirement], stores={"late": ":Good"})
    assert "made for warmcore" in why_not("late")
    assert "install its match" in why_not("late")


@pytest.mark.parametrize(
    "requirement", ["warmcore>=0.1,<0.2", "warmcore", "warmcore-extras>=9", 'warmcore>=9; python_version < "3"']
)
def test_a_plugin_for_this_core_is_used(site: Site, requirement: str) -> None:
    site.install("fits", GOOD, requires=[requirement], stores={"fits": ":Good"})
    assert load(found("fits")).__name__ == "Good"


def test_a_requirement_that_cannot_be_read_is_a_reason(site: Site) -> None:
    site.install("garbled", GOOD, requires=["warmcore @@ 1"], stores={"garbled": ":Good"})
    assert "'warmcore @@ 1' can't be read" in why_not("garbled")


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("import surely_not_installed", "ModuleNotFoundError: No module named 'surely_not_installed'"),
        ("", "AttributeError"),
        ("def (", "SyntaxError"),
        ("raise SystemExit(3)", "tried to end the process with SystemExit"),
        ("raise KeyboardInterrupt", "tried to end the process with KeyboardInterrupt"),
        ("class Loud(BaseException): pass\nraise Loud", "tried to end the process with Loud"),
        ("raise ValueError('two\\nlines')", "ValueError: two lines"),
    ],
)
def test_a_plugin_that_fails_at_import_is_named_with_its_cause(site: Site, code: str, cause: str) -> None:  # PL-01
    site.install("faulty", code, stores={"faulty": ":Good"})
    assert why_not("faulty").startswith("store 'faulty' (faulty 1.0): import failed: ")
    assert cause in why_not("faulty")


def test_an_error_that_cannot_be_shown_is_still_a_plugin_error(site: Site) -> None:
    code = "from tests.support import BrokenText\nraise BrokenText\n"
    site.install("mute", code, stores={"mute": ":Good"})
    assert "BrokenText" in why_not("mute")


def test_an_import_that_sleeps_is_left_behind(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "LOAD_SECONDS", 0.1)
    site.install("sleepy", "import threading\nthreading.Event().wait()\n", stores={"sleepy": ":Good"})
    assert "no answer within 0.1 s" in why_not("sleepy")


@pytest.mark.parametrize(("target", "kind"), [(":number", "int"), (":function", "function"), (":Good()", "")])
def test_an_entry_point_that_is_no_class_is_refused(site: Site, target: str, kind: str) -> None:
    site.install("odd", f"{GOOD}number = 1\ndef function(): pass\n", stores={"odd": target})
    assert f"is a {kind}" in why_not("odd") or "import failed" in why_not("odd")


def test_a_finder_of_somebody_else_that_raises_stops_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        @staticmethod
        def find_spec(*_: object) -> None:
            return None

        @staticmethod
        def find_distributions(*_: object) -> None:
            raise OSError("a registry of its own is gone")

    site.install("good", GOOD, stores={"other": ":Good"})
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert load(found("other")).__name__ == "Good"
