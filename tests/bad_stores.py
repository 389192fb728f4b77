"""Stores that each break one rule of the kit and keep all others; tests/test_testing_stores.py runs the kit on each.

Each is a bug that a real store has had or could have, narrowed to the case that its rule is about.
"""

import contextlib
import fnmatch
import hashlib
import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeVar

from warmcore import Entry, Expect, Fence, Held, Lease, Sink, Source, StoreError, hookimpl
from warmcore.testing import FlappingStore, MemoryStore, open_store
from warmcore.testing.memory import Kept, MemoryLease

BAD: list[tuple[type["Plain"], tuple[str, ...]]] = []
"""Each bad store, and the tests that it fails."""

INCOHERENT: list[type["Plain"]] = []
"""Stores that keep every rule, and fall over a certain order of calls: the state machine finds them."""

instances = itertools.count()


class Plain(MemoryStore):
    """The good one, with what the kit's fixtures give."""

    def reopen(self) -> "Plain":
        again = type(self)()
        again.shelf = self.shelf
        return again

    def read(self, key: str) -> bytes | None:
        kept = self.shelf.entries.get(key)
        return None if kept is None else kept.data

    def write(self, key: str, data: bytes) -> None:
        self.shelf.entries[key] = Kept(data, self.shelf.entries[key].version)

    def unreachable(self) -> object:
        return FlappingStore(open_store(MemoryStore()), up=0)

    def _version_of(self, key: str) -> str | None:
        kept = self.shelf.entries.get(key)
        return None if kept is None else kept.version


Bad = TypeVar("Bad", bound=type[Plain])


def breaks(*tests: str) -> Callable[[Bad], Bad]:
    """Say which tests a bad store fails: one rule, and no other."""

    def register(plugin: Bad) -> Bad:
        BAD.append((plugin, tests))
        return plugin

    return register


def incoherent(plugin: Bad) -> Bad:
    INCOHERENT.append(plugin)
    return plugin


# Bytes


@breaks("test_an_absent_key_is_a_miss")
class AnswersAFreshGetOfNothing(Plain):
    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        return super().store_get(key, sink, fresh) or ("0" if fresh else None)


@breaks("test_a_get_of_an_absent_key_leaves_nothing_behind")
class MakesRoomForWhatIsAskedFor(Plain):
    def __init__(self) -> None:
        super().__init__()
        self._asked: set[str] = set()

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        self._asked.add(key)
        return super().store_get(key, sink, fresh)

    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        found = {entry.key: entry for entry in super().store_list(prefix)}
        return sorted(({key: Entry(key, "0", 0) for key in self._asked - self.shelf.entries.keys()} | found).values())


@breaks("test_bytes_come_back_as_they_went_in[1 byte]")
class StripsNewlines(Plain):
    def _read(self, source: Source) -> bytes:
        return super()._read(source).rstrip(b"\n")


@breaks("test_bytes_come_back_as_they_went_in[1 KiB]")
class TakesBytesForText(Plain):
    def _read(self, source: Source) -> bytes:
        return super()._read(source).decode(errors="replace").encode()


@breaks("test_bytes_come_back_as_they_went_in[9 MiB]")
class KeepsEightMebibytes(Plain):
    def _read(self, source: Source) -> bytes:
        return super()._read(source)[: 8 << 20]


@breaks("test_a_shorter_put_leaves_no_tail")
class NeverTruncates(Plain):
    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        before = self.read(key) or b""
        stored = super().store_put(key, source, expect, fence)
        if stored and len(before) > source.size:
            self.write(key, (self.read(key) or b"") + before[source.size :])
        return stored


@breaks("test_a_short_read_of_a_source_is_not_its_end")
class TakesAShortReadForTheEnd(Plain):
    def _read(self, source: Source) -> bytes:
        data = b""
        while chunk := source.read(1 << 16):
            data += chunk
            if len(chunk) < 16:
                break
        return data


@breaks("test_a_put_is_done_with_its_source_when_it_returns")
class ReadsItsSourceLater(Plain):
    def __init__(self) -> None:
        super().__init__()
        self._sources: dict[str, Source] = {}

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        stored = super().store_put(key, source, expect, fence)
        if stored:
            self._sources[key] = source
        return stored

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        if source := self._sources.pop(key, None):
            source.rewind()
            source.read(1)
        return super().store_get(key, sink, fresh)


@breaks("test_a_source_that_is_rewound_serves_another_put")
class StoresEqualBytesOnce(Plain):
    def __init__(self) -> None:
        super().__init__()
        self._first: dict[str, str] = {}

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        if self._first.setdefault(source.sha256, key) != key:
            return True
        return super().store_put(key, source, expect, fence)


class WritesInPlace(Plain):
    """Keep what was read before the source failed."""

    over_something: bool

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        read = b""
        try:
            while chunk := source.read(1 << 16):
                read += chunk
        except OSError:
            if (key in self.shelf.entries) is self.over_something:
                self.shelf.entries[key] = Kept(read, self._next_version(key))
            raise
        source.rewind()
        return super().store_put(key, source, expect, fence)


@breaks("test_a_source_that_fails_leaves_what_stood")
class OverwritesInPlace(WritesInPlace):
    over_something = True


@breaks("test_a_source_that_fails_where_nothing_stood_leaves_nothing")
class CreatesInPlace(WritesInPlace):
    over_something = False


class SparesTheSink:
    """A sink that never raises."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.failed = False

    def write(self, chunk: bytes) -> None:
        if not self.failed:
            try:
                self._sink.write(chunk)
            except Exception:  # noqa: BLE001  # the bug
                self.failed = True


@breaks("test_what_a_sink_raises_ends_the_get")
class SwallowsWhatASinkRaises(Plain):
    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        return super().store_get(key, SparesTheSink(sink), fresh)


@breaks("test_a_sink_that_raised_leaves_the_store_usable")
class LeavesAReplyUnread(Plain):
    _unread = False

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        if self._unread:
            self._unread = False
            raise StoreError("the reply to the last request was not read to its end")
        try:
            return super().store_get(key, sink, fresh)
        except Exception:
            self._unread = True
            raise


@breaks("test_what_a_store_needs_to_close_it_may_close_twice")
class ClosesOnce(Plain):
    _closed = False

    @hookimpl
    def store_close(self) -> None:
        if self._closed:
            raise StoreError("already closed")
        self._closed = True


@breaks("test_a_server_that_is_not_there_is_an_error_and_no_miss")
class TakesAnErrorForAMiss(Plain):
    def unreachable(self) -> object:
        return FlappingStore(open_store(MemoryStore()), up=0, hooks=["store_put", "store_list", "store_delete"])


# Versions and expectations


@breaks("test_a_version_is_not_empty")
class HasAnEmptyVersion(Plain):
    def _next_version(self, key: str) -> str:
        version = super()._next_version(key)
        return "" if version == "1" else version


@breaks("test_other_bytes_have_another_version")
class HasAWeakChecksumForAVersion(Plain):
    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        before = self.shelf.entries.get(key)
        stored = super().store_put(key, source, expect, fence)
        after = self.shelf.entries.get(key)
        if stored and before and after and self._sum(before) == self._sum(after):
            self.shelf.entries[key] = Kept(after.data, before.version)
        return stored

    def _sum(self, kept: Kept) -> tuple[int, bytes, bytes]:
        return len(kept.data), kept.data[:1], kept.data[-1:]


@breaks("test_the_same_bytes_keep_their_version")
class CountsReads(Plain):
    def __init__(self) -> None:
        super().__init__()
        self._reads: Counter[tuple[str, str | None]] = Counter()

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        version = super().store_get(key, sink, fresh)
        self._reads[key, version] += 1
        often = self._reads[key, version] > 2 and len(self.read(key) or b"") < 100
        return f"{version}+" if version and often else version

    def _is_as(self, expect: Expect | str, key: str) -> bool:
        return super()._is_as(expect.rstrip("+") if isinstance(expect, str) else expect, key)


@breaks("test_any_replaces_whatever_stands")
class RefusesEqualBytes(Plain):
    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        before = self.read(key)
        if before is not None and source.sha256 == hashlib.sha256(before).hexdigest():
            return False
        return super().store_put(key, source, expect, fence)


@breaks("test_absent_stores_where_nothing_stands")
class RefusesAbsentInAnEmptyPlace(Plain):
    _used = False

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        if not self._used and expect is Expect.ABSENT:
            return False
        self._used = True
        return super().store_put(key, source, expect, fence)


@breaks("test_absent_is_refused_where_something_stands")
class TakesItsOwnForAbsent(Plain):
    def __init__(self) -> None:
        super().__init__()
        self._writers: dict[str, int] = {}

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        own = self._writers.get(key) == threading.get_ident()
        stored = super().store_put(key, source, Expect.ANY if own and expect is Expect.ABSENT else expect, fence)
        if stored:
            self._writers[key] = threading.get_ident()
        return stored


@breaks("test_a_version_is_replaced_by_who_expects_it")
class SwapsOnce(Plain):
    def __init__(self) -> None:
        super().__init__()
        self._swapped: set[str] = set()

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        if isinstance(expect, str) and expect in self._swapped:
            return False
        stored = super().store_put(key, source, expect, fence)
        if stored and isinstance(expect, str):
            self._swapped.add(self._version_of(key) or "")
        return stored


@breaks("test_a_version_that_was_replaced_is_refused")
class KeepsItsOwnVersionsValid(Plain):
    def __init__(self) -> None:
        super().__init__()
        self._own: dict[str | None, int] = {}

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        mine = self._own.get(self._version_of(key)) == threading.get_ident()
        if mine and isinstance(expect, str) and self._own.get(expect) == threading.get_ident():
            expect = Expect.ANY
        stored = super().store_put(key, source, expect, fence)
        if stored:
            self._own[self._version_of(key)] = threading.get_ident()
        return stored

    @hookimpl
    def store_delete(self, key: str, expect: Expect | str) -> bool:
        self._own.clear()
        return super().store_delete(key, expect)


@breaks("test_a_version_is_refused_where_nothing_stands")
class CreatesWhateverIsExpected(Plain):
    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        return super().store_put(key, source, expect if key in self.shelf.entries else Expect.ABSENT, fence)


@breaks("test_a_version_that_no_store_gave_is_refused")
class ReadsVersionsAsNumbers(Plain):
    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        return super().store_put(key, source, str(int(expect)) if isinstance(expect, str) else expect, fence)


@breaks("test_a_version_from_before_a_delete_is_refused")
class CountsAnewAfterADelete(Plain):
    def _next_version(self, key: str) -> str:
        return str(int(self._version_of(key) or 0) + 1)


@breaks("test_a_refused_put_changes_nothing")
class CountsRefusals(Plain):
    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        stored = super().store_put(key, source, expect, fence)
        if not stored and isinstance(expect, str) and key in self.shelf.entries:
            with self.shelf.lock:
                self.shelf.entries[key] = self.shelf.entries[key]._replace(version=self._next_version(key))
        return stored


@breaks("test_a_put_at_one_key_leaves_the_others")
class HasOneVersionForAll(Plain):
    def _next_version(self, key: str) -> str:
        version = super()._next_version(key)
        for other in self.shelf.entries.keys() - {key}:
            self.shelf.entries[other] = self.shelf.entries[other]._replace(version=version)
        return version


@breaks("test_a_fence_of_another_store_is_ignored")
class RefusesEveryUnknownFence(Plain):
    def _stands(self, fence: Fence | None) -> bool:
        return fence is None or (fence["store"] == self.shelf.id and super()._stands(fence))


# Keys


class Folds(Plain):
    """Keep keys in another form, in which some are the same."""

    def __init__(self) -> None:
        super().__init__()
        self._spelt: dict[str, str] = {}

    def fold(self, key: str) -> str:
        raise NotImplementedError

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        return super().store_get(self.fold(key), sink, fresh)

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        self._spelt[self.fold(key)] = key
        return super().store_put(self.fold(key), source, expect, fence)

    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        found = [entry._replace(key=self._spelt[entry.key]) for entry in super().store_list("")]
        return sorted(entry for entry in found if entry.key.startswith(prefix))

    @hookimpl
    def store_delete(self, key: str, expect: Expect | str) -> bool:
        return super().store_delete(self.fold(key), expect)

    @hookimpl
    def store_lease(self, key: str, entry: str, expect: Expect | str, ttl: float, note: float | None) -> Lease | Held:
        return super().store_lease(key, self.fold(entry), expect, ttl, note)

    def reopen(self) -> Plain:
        again = super().reopen()
        vars(again)["_spelt"] = self._spelt
        return again

    def read(self, key: str) -> bytes | None:
        return super().read(self.fold(key))

    def write(self, key: str, data: bytes) -> None:
        super().write(self.fold(key), data)


def apart(case: str) -> Callable[[Bad], Bad]:
    return breaks(f"test_near_equal_keys_are_kept_apart[{case}]")


@apart("prefixes")
class FindsByPrefix(Plain):
    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        found = sorted(each for each in self.shelf.entries if each.startswith(key))
        return super().store_get(found[0] if found else key, sink, fresh)


@apart("digits")
class ShortensHashes(Folds):
    def fold(self, key: str) -> str:
        *parts, digest, name = key.split("/")
        return "/".join((*parts, digest[:32], name))


@apart("long")
class ShortensKeys(Folds):
    def fold(self, key: str) -> str:
        return key[:255]


@apart("case")
class IsBlindToCase(Folds):
    def fold(self, key: str) -> str:
        return key.lower()


@apart("wildcards")
class FindsByPattern(Plain):
    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        if key not in self.shelf.entries:
            pattern = key.replace("_", "?")
            key = next((each for each in self.shelf.entries if fnmatch.fnmatchcase(each, pattern)), key)
        return super().store_get(key, sink, fresh)


@apart("odd")
class StripsDots(Folds):
    def fold(self, key: str) -> str:
        return key.rstrip(".")


@apart("namespaces")
class ForgetsTheNamespace(Folds):
    def fold(self, key: str) -> str:
        return key.partition("/")[2]


@apart("kinds")
class SplitsAtUnderscores(Folds):
    def fold(self, key: str) -> str:
        namespace, version, kind, *rest = key.split("/")
        return "/".join((namespace, version, kind.partition("_")[0], *rest))


# Lists and deletes


@breaks("test_the_list_of_an_empty_store_is_empty")
class ListsNoEmptyPlace(Plain):
    _used = False

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        self._used = True
        return super().store_put(key, source, expect, fence)

    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        if not self._used:
            raise FileNotFoundError("no such folder")
        return super().store_list(prefix)


@breaks("test_a_list_has_what_was_put_in_the_order_of_keys")
class ListsInTheOrderOfPuts(Plain):
    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        found = {entry.key: entry for entry in super().store_list(prefix)}
        return [found[key] for key in self.shelf.entries if key in found]


@breaks("test_a_long_list_is_complete")
class ListsOnePage(Plain):
    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        return super().store_list(prefix)[:200]


@breaks("test_a_list_is_of_one_prefix")
class ListsWhatHoldsThePrefix(Plain):
    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        return [entry for entry in super().store_list("") if prefix in entry.key]


@breaks("test_a_prefix_holds_no_wildcards")
class ListsByPattern(Plain):
    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        return [entry for entry in super().store_list("") if fnmatch.fnmatchcase(entry.key, f"{prefix}*")]


@breaks("test_a_listed_size_is_that_of_the_bytes_as_read")
class ListsSizesAtRest(Plain):
    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        return [entry._replace(size=entry.size + 40) for entry in super().store_list(prefix)]


@breaks("test_a_listed_version_is_that_of_a_get")
class ListsOtherVersions(Plain):
    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        return [entry._replace(version=f"v{entry.version}") for entry in super().store_list(prefix)]


class Remembers(Plain):
    """Know what was deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: dict[str, Kept] = {}

    @hookimpl
    def store_delete(self, key: str, expect: Expect | str) -> bool:
        before = self.shelf.entries.get(key)
        done = super().store_delete(key, expect)
        if done and before:
            self.deleted[key] = before
        return done


@breaks("test_what_is_deleted_is_gone")
class HandsOutWhatWasDeleted(Remembers):
    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        version = super().store_get(key, sink, fresh)
        if version is None and key in self.deleted:
            sink.write(self.deleted[key].data)
            return self.deleted[key].version
        return version


@breaks("test_what_is_deleted_is_not_listed")
class ListsWhatWasDeleted(Remembers):
    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        gone = [Entry(key, kept.version, len(kept.data)) for key, kept in self.deleted.items()]
        return sorted(super().store_list(prefix) + gone)


@breaks("test_what_is_deleted_can_be_put_again")
class RefusesWhatWasDeleted(Remembers):
    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        if expect is Expect.ABSENT and key in self.deleted:
            return False
        return super().store_put(key, source, expect, fence)


@breaks("test_what_is_deleted_does_not_lie_at_rest")
class KeepsWhatWasDeleted(Remembers):
    def read(self, key: str) -> bytes | None:
        found = super().read(key)
        return self.deleted[key].data if found is None and key in self.deleted else found


@breaks("test_a_delete_of_nothing_is_refused")
class DeletesNothing(Plain):
    @hookimpl
    def store_delete(self, key: str, expect: Expect | str) -> bool:
        return super().store_delete(key, expect) or key not in self.shelf.entries


@breaks("test_a_delete_that_expects_the_version_that_stands_is_done")
class DeletesUnconditionallyOrNotAtAll(Plain):
    @hookimpl
    def store_delete(self, key: str, expect: Expect | str) -> bool:
        return expect is Expect.ANY and super().store_delete(key, expect)


@breaks("test_a_delete_that_expects_another_version_is_refused")
class DeletesWhateverIsExpected(Plain):
    @hookimpl
    def store_delete(self, key: str, expect: Expect | str) -> bool:  # the bug
        return super().store_delete(key, Expect.ANY)


@breaks("test_a_delete_leaves_all_other_keys")
class DeletesByPrefix(Plain):
    @hookimpl
    def store_delete(self, key: str, expect: Expect | str) -> bool:
        done = super().store_delete(key, expect)
        for other in [each for each in self.shelf.entries if done and each.startswith(key)]:
            del self.shelf.entries[other]
        return done


# Threads and instances


@breaks("test_a_reader_sees_old_or_new_and_never_a_mix")
class OverwritesHalfByHalf(Plain):
    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        kept = self.shelf.entries.get(key)
        if kept is None:
            return None
        sink.write(kept.data)
        return kept.version

    def _next_version(self, key: str) -> str:
        version, before = super()._next_version(key), self.shelf.entries.get(key)
        if before and len(before.data) > 1000:
            self.shelf.entries[key] = Kept(before.data[:1000], f"half of {version}")
            time.sleep(0.002)
        return version


@breaks("test_bytes_and_version_belong_together")
class ReadsTheVersionApart(Plain):
    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        version = super().store_get(key, sink, fresh)
        if version and len(self.read(key) or b"") == 100_000:
            time.sleep(0.005)
            return self._version_of(key)
        return version


class ChecksThenPuts(Plain):
    """Compare at one moment and swap at another."""

    for_absent: bool

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        if expect is Expect.ANY or (expect is Expect.ABSENT) is not self.for_absent:
            return super().store_put(key, source, expect, fence)
        if not self._is_as(expect, key):
            return False
        time.sleep(0.02)
        return super().store_put(key, source, Expect.ANY, fence)


@breaks("test_one_of_many_who_expect_absent_is_first")
class ChecksThenCreates(ChecksThenPuts):
    for_absent = True


@breaks("test_one_of_many_who_expect_a_version_replaces_it")
class ChecksThenReplaces(ChecksThenPuts):
    for_absent = False


@breaks("test_threads_do_not_disturb_each_other")
class KeepsItsKeyInItself(Plain):
    _key = ""

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        self._key = key
        time.sleep(0.0002)
        return super().store_put(self._key, source, expect, fence)


@breaks("test_another_instance_sees_what_was_put")
class WritesBehind(Plain):
    """Hold each put back until the next call."""

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[str, Kept] = {}
        self._turn = threading.RLock()

    @contextlib.contextmanager
    def _settled(self) -> Iterator[None]:
        with self._turn:
            while self._held:
                self.shelf.entries.update([self._held.popitem()])
            yield

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        with self._settled():
            return super().store_get(key, sink, fresh)

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        with self._settled():
            stored = super().store_put(key, source, expect, fence)
            if stored:
                self._held[key] = self.shelf.entries.pop(key)
            return stored

    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        with self._settled():
            return super().store_list(prefix)

    @hookimpl
    def store_delete(self, key: str, expect: Expect | str) -> bool:
        with self._settled():
            return super().store_delete(key, expect)

    @hookimpl
    def store_lease(self, key: str, entry: str, expect: Expect | str, ttl: float, note: float | None) -> Lease | Held:
        with self._settled():
            return super().store_lease(key, entry, expect, ttl, note)

    def read(self, key: str) -> bytes | None:
        with self._settled():
            return super().read(key)


@breaks("test_a_version_counts_for_all_instances")
class HasVersionsOfItsOwn(Plain):
    def __init__(self) -> None:
        super().__init__()
        self._mark = f"{next(instances)}:"

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        version = super().store_get(key, sink, fresh)
        return version and self._mark + version

    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        return [entry._replace(version=self._mark + entry.version) for entry in super().store_list(prefix)]

    def _is_as(self, expect: Expect | str, key: str) -> bool:
        if isinstance(expect, str) and not expect.startswith(self._mark):
            return False
        return super()._is_as(expect.removeprefix(self._mark) if isinstance(expect, str) else expect, key)


@breaks("test_a_fresh_get_sees_the_latest")
class CachesWhatItRead(Plain):
    def __init__(self) -> None:
        super().__init__()
        self._cached: dict[str, Kept] = {}

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        kept = self._cached.get(key) or self.shelf.entries.get(key)
        if kept is None:
            return None
        self._cached[key] = kept
        for start in range(0, len(kept.data), 1 << 20):
            sink.write(kept.data[start : start + (1 << 20)])
        return kept.version

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        stored = super().store_put(key, source, expect, fence)
        self._cached.pop(key, None)
        return stored

    @hookimpl
    def store_delete(self, key: str, expect: Expect | str) -> bool:
        self._cached.pop(key, None)
        return super().store_delete(key, expect)


@breaks("test_a_store_that_was_used_works_on_both_sides_of_a_fork")
class BelongsToOneProcess(Plain):
    def __init__(self) -> None:
        super().__init__()
        self._process = os.getpid()

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        if os.getpid() != self._process:
            raise StoreError("this connection belongs to another process")
        return super().store_get(key, sink, fresh)


# At rest


@breaks("test_a_put_lies_at_rest_when_it_returns")
class FlushesAtTheNextGet(Plain):
    def __init__(self) -> None:
        super().__init__()
        self._unflushed: set[str] = set()

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        stored = super().store_put(key, source, expect, fence)
        if stored:
            self._unflushed.add(key)
        return stored

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        self._unflushed.discard(key)
        return super().store_get(key, sink, fresh)

    def read(self, key: str) -> bytes | None:
        return None if key in self._unflushed else super().read(key)


@breaks("test_a_refused_put_leaves_what_lies_at_rest")
class LeavesRefusedBytes(Plain):
    _left = b""

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        stored = super().store_put(key, source, expect, fence)
        if not stored:
            source.rewind()
            self._left += source.read(source.size)
        return stored

    def read(self, key: str) -> bytes | None:
        found = super().read(key)
        return found if found is None else found + self._left


class Checks(Plain):
    """Know by a checksum what was damaged at rest."""

    def __init__(self) -> None:
        super().__init__()
        self.damaged: set[str] = set()

    def write(self, key: str, data: bytes) -> None:
        super().write(key, data)
        self.damaged.add(key)


@breaks(
    *(
        f"test_damage_is_healed_by_who_rejected_it[{damage}]"
        for damage in ("a bit flipped", "cut in half", "emptied", "something else")
    )
)
class NeverReplacesDamage(Checks):
    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        if key in self.damaged:
            raise StoreError(f"{key} is damaged")
        return super().store_put(key, source, expect, fence)


@breaks("test_damage_at_one_key_leaves_the_others")
class StopsAtAnyDamage(Checks):
    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        if self.damaged:
            raise StoreError("the index is damaged")
        return super().store_get(key, sink, fresh)

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        self.damaged.discard(key)
        return super().store_put(key, source, expect, fence)


# Leases


@breaks("test_a_lease_is_granted_once")
class TakesALeaseWithoutANoteForDead(Plain):
    @hookimpl
    def store_lease(self, key: str, entry: str, expect: Expect | str, ttl: float, note: float | None) -> Lease | Held:
        held = self.shelf.leases.get(key)
        if held is not None and held.note is None:
            held.release()
        return super().store_lease(key, entry, expect, ttl, note)


@breaks("test_a_lease_of_another_key_is_free")
class HasOneLock(Plain):
    @hookimpl
    def store_lease(self, key: str, entry: str, expect: Expect | str, ttl: float, note: float | None) -> Lease | Held:
        return super().store_lease("one", entry, expect, ttl, note)


@breaks("test_a_released_lease_is_granted_again")
class GrantsTwice(Plain):
    def __init__(self) -> None:
        super().__init__()
        self._granted: Counter[str] = Counter()

    @hookimpl
    def store_lease(self, key: str, entry: str, expect: Expect | str, ttl: float, note: float | None) -> Lease | Held:
        self._granted[key] += 1
        return Held() if self._granted[key] > 2 else super().store_lease(key, entry, expect, ttl, note)


class Leases(Plain):
    """Grant leases of another class."""

    lease: type[MemoryLease]

    @hookimpl
    def store_lease(self, key: str, entry: str, expect: Expect | str, ttl: float, note: float | None) -> Lease | Held:
        granted = super().store_lease(key, entry, expect, ttl, note)
        if isinstance(granted, Held):
            return granted
        self.shelf.leases[key] = self.lease(self.shelf, key, note)
        return self.shelf.leases[key]


class NeverDies(MemoryLease):
    def alive(self) -> bool:
        return True

    def release(self) -> None:
        if self._shelf.leases.get(self.fence["lock"]) is self:
            del self._shelf.leases[self.fence["lock"]]


@breaks("test_a_lease_is_alive_until_it_is_released")
class LeasesThatNeverDie(Leases):
    lease = NeverDies


class ReleasesWhoeverHolds(MemoryLease):
    def release(self) -> None:
        self._shelf.leases.pop(self.fence["lock"], None)


@breaks("test_a_lease_may_be_released_twice")
class LeasesThatReleaseWhoeverHolds(Leases):
    lease = ReleasesWhoeverHolds


@breaks("test_who_waits_learns_what_the_holder_knew")
class TellsNothing(Plain):
    @hookimpl
    def store_lease(self, key: str, entry: str, expect: Expect | str, ttl: float, note: float | None) -> Lease | Held:
        granted = super().store_lease(key, entry, expect, ttl, note)
        return Held(changed=granted.changed) if isinstance(granted, Held) else granted


class LeasesOver(Plain):
    """Look away from some expectations of a lease."""

    def expected(self, expect: Expect | str) -> Expect | str:
        raise NotImplementedError

    @hookimpl
    def store_lease(self, key: str, entry: str, expect: Expect | str, ttl: float, note: float | None) -> Lease | Held:
        return super().store_lease(key, entry, self.expected(expect), ttl, note)


@breaks("test_a_lease_that_expects_absent_is_refused_where_an_entry_stands")
class LeasesOverAnEntry(LeasesOver):
    def expected(self, expect: Expect | str) -> Expect | str:
        return Expect.ANY if expect is Expect.ABSENT else expect


@breaks("test_a_lease_that_expects_a_version_is_granted_where_it_stands")
class LeasesOverNothingOnly(LeasesOver):
    def expected(self, expect: Expect | str) -> Expect | str:
        return Expect.ABSENT if isinstance(expect, str) else expect


@breaks("test_a_lease_that_expects_a_version_is_refused_where_another_stands")
class LeasesOverAnyVersion(LeasesOver):
    def expected(self, expect: Expect | str) -> Expect | str:
        return Expect.ANY if isinstance(expect, str) else expect


class Fences(Plain):
    """Compare a fence of this store in another way."""

    def fits(self, fence: Fence, lease: MemoryLease | None) -> bool:
        raise NotImplementedError

    def _stands(self, fence: Fence | None) -> bool:
        if fence is None or fence["store"] != self.shelf.id:
            return True
        return self.fits(fence, self.shelf.leases.get(fence["lock"]))


@breaks("test_a_fence_survives_json")
class KnowsItsOwnFenceOnly(Fences):
    def fits(self, fence: Fence, lease: MemoryLease | None) -> bool:
        return lease is not None and lease.fence is fence


@breaks("test_the_fence_of_a_released_lease_is_refused")
class TakesAFenceWhereNothingStands(Fences):
    def fits(self, fence: Fence, lease: MemoryLease | None) -> bool:
        return lease is None or lease.fence == fence


@breaks("test_the_fence_of_the_holder_before_is_refused")
class TakesAnyFenceOfALock(Fences):
    def fits(self, fence: Fence, lease: MemoryLease | None) -> bool:
        return lease is not None


# For the machine


@incoherent
class RefusesAbsentAfterADeleteElsewhere(Remembers):
    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        if expect is Expect.ABSENT and self.deleted.keys() - {key}:
            return False
        return super().store_put(key, source, expect, fence)


@incoherent
class ListsTooLittleAfterARefusal(Plain):
    _refused = False

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        stored = super().store_put(key, source, expect, fence)
        self._refused = not stored
        return stored

    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        return super().store_list(prefix)[int(self._refused) :]
