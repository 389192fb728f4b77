"""The kit's parts: a fake engine and stores that fail, used through a real config, as a third party would use them."""

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import warmcore
from warmcore import Expect, Fence, Reject, StoreError
from warmcore.settings import Duration, Size
from warmcore.testing import (
    BytesSink,
    BytesSource,
    CorruptingStore,
    FakeEngine,
    FlappingStore,
    FullStore,
    HangingStore,
    MemoryStore,
    SlowStore,
    get_bytes,
    open_store,
    put_bytes,
    stored_key,
)
from warmcore.testing.engine import SHAPES

pytest_plugins = ["warmcore.testing.fixtures"]

KEY = stored_key()


def around(plugin: str, **keys: Any) -> dict[str, Mapping[str, Any]]:
    """Return the tables of a store of the kit around a memory store named as the test."""
    return {"odd": {"plugin": plugin, "inner": "kept", "timeout": "1s"} | keys, "kept": {"plugin": "memory"}}


class TestEngine:
    def test_the_first_start_makes_all_and_the_second_engine_makes_nothing(
        self, warmcore_engine: FakeEngine, tmp_path: Path
    ) -> None:
        stores = {"fleet": {"plugin": "memory", "shelf": str(tmp_path)}}
        first = warmcore_engine.start(stores)
        second = FakeEngine(tmp_path / "second")
        report = second.start(stores)
        assert (len(warmcore_engine.made), len(second.made)) == (len(SHAPES), 0)
        assert (first.kinds[0].outcome, report.kinds[0].outcome, report.kinds[0].store) == ("miss", "hit", "fleet")
        assert report.kinds[0].usage is not None and len(report.kinds[0].usage.used) == len(SHAPES)

    def test_an_engine_without_a_device_has_no_part(self, warmcore_plugins: Path, tmp_path: Path) -> None:
        report = FakeEngine(tmp_path, capability=None).start({"fleet": {"plugin": "memory"}})
        assert report.kinds[0].outcome == "not applicable" and "capability" in report.kinds[0].reason

    def test_the_plugins_are_there_for_children_too(self, warmcore_plugins: Path) -> None:
        program = "from warmcore.discovery import find_plugins; print([found.name for found in find_plugins('store')])"
        environ = {"PYTHONPATH": str(warmcore_plugins)}
        done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
        assert "'memory'" in done.stdout and "'corrupting'" in done.stdout


class TestFaultsThroughAConfig:
    @pytest.mark.parametrize(
        ("plugin", "keys", "outcome"),
        [
            ("slow", {"delay": "1ms"}, "miss"),
            ("hanging", {"timeout": "50ms"}, "timeout"),
            ("flapping", {"up": 0}, "error"),
            ("full", {"room": "1KiB"}, "miss"),
            ("corrupting", {"damage": "cut"}, "miss"),
        ],
    )
    def test_an_engine_starts_whatever_its_store_does(
        self, warmcore_engine: FakeEngine, plugin: str, keys: dict[str, Any], outcome: str
    ) -> None:
        report = warmcore_engine.start(around(plugin, **keys))
        assert warmcore_engine.made == [f"{shape}.plan" for shape in SHAPES]
        assert report.problems == [] and report.look_ups()["odd", outcome] == 1  # type: ignore[index]  # mypy: a str

    @pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "random", "other"])
    def test_what_is_damaged_is_rejected(self, warmcore_engine: FakeEngine, tmp_path: Path, damage: str) -> None:
        kept = {"plugin": "memory", "shelf": str(tmp_path)}
        warmcore_engine.start({"kept": kept})
        second = FakeEngine(tmp_path / "second")
        report = second.start(around("corrupting", damage=damage) | {"kept": kept})
        assert len(second.made) == len(SHAPES) and report.kinds[0].outcome == "reject"


class TestFaults:
    def test_a_hanging_store_goes_on_when_it_is_released(self) -> None:
        inner = open_store(MemoryStore())
        plugin = HangingStore(inner, hooks=["store_get"])
        store = open_store(plugin, inner=inner)
        assert put_bytes(store, KEY, b"one")
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.append(get_bytes(store, KEY)), daemon=True)
        thread.start()
        assert found == [] and thread.is_alive()
        plugin.release()
        thread.join(60)
        assert len(found) == 1

    def test_a_flapping_store_answers_and_refuses_in_turns(self) -> None:
        inner = open_store(MemoryStore())
        store = open_store(FlappingStore(inner, up=2, down=1, hooks=["store_get"]), inner=inner)
        answers: list[object] = []
        for _ in range(6):
            try:
                answers.append(get_bytes(store, KEY))
            except StoreError:
                answers.append("down")
        assert answers == [None, None, "down", None, None, "down"]

    def test_a_full_store_fails_in_the_middle_and_keeps_what_stood(self) -> None:
        inner = open_store(MemoryStore())
        store = open_store(FullStore(inner, room=Size(100)), inner=inner)
        assert put_bytes(store, KEY, b"x" * 60)
        with pytest.raises(StoreError, match="no space left"):
            put_bytes(store, KEY, b"y" * 60)
        got = get_bytes(store, KEY)
        assert got is not None and got.data == b"x" * 60

    def test_another_keys_bytes_are_handed_out_under_the_right_version(self) -> None:
        inner = open_store(MemoryStore())
        store = open_store(CorruptingStore(inner, "other"), inner=inner)
        put_bytes(store, KEY, b"one")
        put_bytes(store, stored_key("other"), b"two")
        got, honest = get_bytes(store, KEY), get_bytes(inner, KEY)
        assert got is not None and honest is not None
        assert (got.data, got.version) == (b"two", honest.version)

    def test_a_wrapper_can_do_what_its_inner_store_can(self) -> None:
        inner = open_store(MemoryStore())
        assert open_store(SlowStore(inner, Duration(0)), inner=inner).can == inner.can


class TestMemoryStore:
    def test_stores_of_one_shelf_share_it(self, tmp_path: Path) -> None:
        one, same, other = (open_store(MemoryStore(shelf)) for shelf in (str(tmp_path), str(tmp_path), ""))
        put_bytes(one, KEY, b"one")
        assert (get_bytes(same, KEY) is not None, get_bytes(other, KEY)) == (True, None)

    def test_a_lost_lease_is_dead_and_its_fence_forbids(self) -> None:
        plugin = MemoryStore()
        store = open_store(plugin)
        lease = store.lease("lock", KEY, Expect.ABSENT, 30.0, None)
        assert not isinstance(lease, warmcore.Held) and lease.alive()
        plugin.lose_leases()
        assert not lease.alive() and not put_bytes(store, KEY, b"late", fence=lease.fence)

    def test_a_fence_is_plain_data(self) -> None:
        lease = open_store(MemoryStore()).lease("lock", KEY, Expect.ABSENT, 30.0, None)
        assert not isinstance(lease, warmcore.Held)
        fence: Fence = json.loads(json.dumps(lease.fence))
        assert fence == lease.fence


class TestBytes:
    def test_a_source_gives_short_pieces_and_starts_again(self) -> None:
        source = BytesSource(b"abcdef", piece=4)
        first = [source.read(100), source.read(100), source.read(100)]
        source.rewind()
        assert first == [b"abcd", b"ef", b""] and source.read(2) == b"ab" and source.size == 6

    def test_a_sink_raises_at_the_chunk_that_goes_too_far(self) -> None:
        sink = BytesSink(Reject("over the cap"), after=4)
        sink.write(b"abcd")
        with pytest.raises(Reject):
            sink.write(b"e")
        assert sink.data == b"abcd"


PLUGIN_TEST = """
import sys

def test_the_fixtures_are_there_and_nothing_was_imported_for_them(request):
    loaded = [name for name in sys.modules if name.partition(".")[0] == "warmcore"]
    assert sorted(loaded) == ["warmcore", "warmcore.testing", "warmcore.testing.fixtures"]
    assert request.getfixturevalue("warmcore_engine").shapes
"""


def test_as_an_entry_point_the_plugin_costs_a_run_nothing(tmp_path: Path) -> None:
    info = tmp_path / "kit_again-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kit-again\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[pytest11]\nwarmcore.testing.fixtures = warmcore.testing.fixtures\n")
    (tmp_path / "test_plugin.py").write_text(PLUGIN_TEST)
    warnings = ["-W", "error", "-W", "ignore:assertions not in test modules"]  # under -O
    command = [sys.executable, "-m", "pytest", *warnings, "-p", "no:cacheprovider", "test_plugin.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout
