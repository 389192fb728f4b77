"""`warmcore explain`: the nearest stored entries, and exactly the factors that differ."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from tests.cli_support import KIND, Cli, put, run_inside, seal
from warmcore import Place, Report, Store, load_config
from warmcore.assembly import assemble
from warmcore.identity import Identity, Scalar, make_key
from warmcore.report import Event, KindReport

FACTORS: dict[str, Scalar] = {
    "arch": 90,
    "dtype": "fp8",
    "engine": "0" * 64,
    "gpu": "NVIDIA H200",
    "graphs": True,
    "library": "0.6.18",
    "max_tokens": 8192,
    "note": None,
    "scale": 1.0,
    "tp_size": 8,
}
OTHER: dict[type, Scalar] = {int: 7919, str: "another", bool: False, type(None): "a note", float: 0.5}


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    return partial(run_inside, capfd)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.chdir(tmp_path)
    Path("warmcore.toml").write_text(
        '[stores.near]\nplugin = "disk"\npath = "near"\ndurable = false\n[policy]\nreports = "reports"\n'
    )
    return assemble(load_config()).stores[0]


@pytest.fixture
def twenty(store: Store) -> list[dict[str, Scalar]]:
    """Store 20 entries, each of which differs from each other in at least three factors."""
    stored = [FACTORS | {"gpu": f"gpu {n}", "max_tokens": n, "engine": f"{n:064x}"} for n in range(20)]
    for factors in stored:
        put(store, *seal(factors, {"a": b"a"}))
    return stored


def report_of(factors: Mapping[str, Scalar], *events: Event, outcome: str = "miss") -> str:
    """Write the report of a start that asked for these factors, as a session does; return its path."""
    key = make_key(KIND, Identity(factors).config_hash, "all")
    kind = KindReport(KIND, key, outcome, identity=dict(factors))  # type: ignore[arg-type]  # an outcome
    Path("reports").mkdir(exist_ok=True)
    path = Path("reports") / f"{len(list(Path('reports').iterdir())):015d}-abc.json"
    path.write_text(Report("default", kinds=[kind], events=list(events)).to_json())
    return str(path)


@pytest.mark.parametrize("changed", FACTORS)
def test_each_factor_changed_in_turn_is_the_one_that_is_named(
    cli: Cli, twenty: list[dict[str, Scalar]], changed: str
) -> None:
    number = list(FACTORS).index(changed)
    for stored in (twenty[number], twenty[-1 - number]):
        value = OTHER[type(stored[changed])]
        (asked,) = cli("explain", report_of(stored | {changed: value}), "--json").json["asked"]
        (nearest,) = asked["nearest"]
        assert nearest["key"] == seal(stored, {"a": b"a"})[0] and nearest["store"] == "near"
        assert nearest["differs"] == [{"factor": changed, "asked": value, "stored": stored[changed]}]


@pytest.mark.parametrize(("asked", "stored"), [(1, 1.0), (1, True), ("1", 1), ("null", None), (0, False)])
def test_values_that_python_calls_equal_are_shown_to_differ(
    cli: Cli, store: Store, asked: Scalar, stored: Scalar
) -> None:
    put(store, *seal({"arch": 90, "x": stored}, {"a": b"a"}))
    out = cli("explain", report_of({"arch": 90, "x": asked})).out
    assert f"x       {json.dumps(asked):<9}  {json.dumps(stored)}\n" in out


def test_a_factor_that_one_side_lacks_is_told_from_none(cli: Cli, store: Store) -> None:
    put(store, *seal({"arch": 90, "old": None}, {"a": b"a"}))
    path = report_of({"arch": 90, "new": None})
    out = " ".join(cli("explain", path).out.split())
    assert "differs in 2 factors: factor asked for stored new null (absent) old (absent) null" in out
    (nearest,) = cli("explain", path, "--json").json["asked"][0]["nearest"]
    assert nearest["differs"] == [{"factor": "new", "asked": None}, {"factor": "old", "stored": None}]


def test_it_says_which_factors_make_up_the_identity_and_what_never_does(cli: Cli, store: Store) -> None:
    ran = cli("explain", report_of(FACTORS))
    assert ran.code == 0 and "any of these 10 factors" in ran.out
    assert all(f"  {name}" in ran.out for name in FACTORS)
    assert "Never a factor" in ran.out and all(name in ran.out for name in ("host", "pid", "HOME"))
    assert "No other identity of this kind is stored." in ran.out
    assert cli("explain", report_of(FACTORS), "--json").json["asked"][0]["identity"] == FACTORS


def test_a_report_tells_which_look_ups_happened_and_why_they_missed(cli: Cli, store: Store) -> None:
    look_ups = [
        Event(0.0, "look-up", KIND, "k", "engine folder", "miss"),
        Event(0.0, "look-up", KIND, "k", "near", "reject", "header does not match its digest"),
        Event(0.0, "publish", KIND, "k", "near", "stored"),
    ]
    path = report_of(FACTORS, *look_ups, outcome="reject")
    out = cli("explain", path).out
    assert "near           reject   header does not match its digest" in out and "publish" not in out
    assert len(cli("explain", path, "--json").json["asked"][0]["look_ups"]) == 2


def test_more_than_one_nearest_come_in_order(cli: Cli, twenty: list[dict[str, Scalar]]) -> None:
    (asked,) = cli("explain", report_of(twenty[3] | {"arch": 100}), "--most", "5", "--json").json["asked"]
    counts = [len(each["differs"]) for each in asked["nearest"]]
    assert len(counts) == 5 and counts[0] == 1 and counts == sorted(counts)


def test_a_stored_key_is_explained_by_its_own_identity(cli: Cli, twenty: list[dict[str, Scalar]]) -> None:
    key, _ = seal(twenty[0], {"a": b"a"})
    for text in (key, key.split("/")[2][:16]):
        (asked,) = cli("explain", text, "--json").json["asked"]
        assert asked["key"] == key and asked["identity"] == twenty[0] and asked["origin"] == "stored in near"
        assert {each["factor"] for each in asked["nearest"][0]["differs"]} == {"gpu", "max_tokens", "engine"}


def test_a_key_that_missed_is_explained_by_the_report_that_asked_for_it(
    cli: Cli, twenty: list[dict[str, Scalar]]
) -> None:
    report_of(twenty[5] | {"tp_size": 4})
    key = make_key(KIND, Identity(twenty[5] | {"tp_size": 4}).config_hash, "all")
    (asked,) = cli("explain", key, "--json").json["asked"]
    assert asked["nearest"][0]["differs"] == [{"factor": "tp_size", "asked": 4, "stored": 8}]
    unknown = cli("explain", make_key(KIND, "0" * 64, "all"))
    assert unknown.code == 2 and "a hash tells no factors" in unknown.err


def test_the_same_identity_under_another_name_is_named(cli: Cli, store: Store) -> None:
    key, data = seal(FACTORS, {"a": b"a"}, place=Place(tp=1, rank=1))
    put(store, key, data)
    assert f"The same identity is stored as {key}\n" in cli("explain", report_of(FACTORS)).out


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "\udcff", '{"kinds": 1}', '{"kinds": [{"kind": "x", "identity": {"a": [1]}}]}', "[" * 100_000],
)
def test_a_file_that_is_no_report_is_one_line(cli: Cli, store: Store, text: str) -> None:
    Path("report.json").write_text(text, errors="surrogateescape")
    ran = cli("explain", "report.json")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "report.json: not the JSON report of a start" in ran.err


def test_a_start_without_a_look_up_says_why(cli: Cli, store: Store) -> None:
    path = Path("report.json")
    path.write_text(Report("default", kinds=[KindReport(KIND, reason="no triton here")]).to_json())
    assert "no triton here" in cli("explain", "report.json").out
    path.write_text(Report("default", off="WARMCORE_DISABLE is set").to_json())
    assert cli("explain", "report.json").code == 2
