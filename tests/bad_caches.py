"""Caches that each break one rule of the kit and keep all others; tests/test_testing_caches.py runs the kit on each."""

import itertools
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import warmcore
from warmcore import (
    Blob,
    CacheError,
    Context,
    Fingerprint,
    Identity,
    NotApplicable,
    Origin,
    Payload,
    Place,
    Reject,
    Request,
    Undo,
    Usage,
    hookimpl,
)
from warmcore.testing import DemoCache
from warmcore.testing.demo import KIND
from warmcore.testing.engine import DRIVER, counting, plan

BAD: list[tuple[type[DemoCache], str]] = []
"""Each bad cache, and the test that it fails."""

Bad = TypeVar("Bad", bound=type[DemoCache])
calls = itertools.count()


def breaks(test: str) -> Callable[[Bad], Bad]:
    """Say which test a bad cache fails: it fails no other."""

    def register(plugin: Bad) -> Bad:
        BAD.append((plugin, test))
        return plugin

    return register


# Requests


class Requests(DemoCache):
    """Make the request from other factors."""

    def change(self, factors: dict[str, Any], context: Context) -> Mapping[str, Any]:
        raise NotImplementedError

    @hookimpl
    def request_params(self, context: Context) -> Request | NotApplicable:
        request = super().request_params(context)
        if isinstance(request, NotApplicable) or request.identity is None:
            return request
        return Request.of(KIND, Identity(self.change(dict(request.identity.factors), context)), context.place)


@breaks("test_a_request_is_the_same_each_time")
class ForgetsWhatItDetermined(DemoCache):
    @hookimpl
    def request_params(self, context: Context) -> Request | NotApplicable:
        request = super().request_params(context)
        if isinstance(request, Request) and next(calls) % 2:
            return replace(request, local_only=("driver",))
        return request


@breaks("test_a_request_is_the_same_in_another_folder")
class HashesItsFolder(Requests):
    def change(self, factors: dict[str, Any], context: Context) -> Mapping[str, Any]:
        return factors | {"folder": str(self._folder)}


@breaks("test_a_place_is_not_in_the_hash")
class HashesTheRank(Requests):
    def change(self, factors: dict[str, Any], context: Context) -> Mapping[str, Any]:
        return factors | {"rank": context.place.rank}


@breaks("test_each_factor_of_the_engine_is_in_the_hash")
class HashesFactorsAsText(Requests):
    def change(self, factors: dict[str, Any], context: Context) -> Mapping[str, Any]:
        return {name: str(value) for name, value in factors.items()}


@breaks("test_the_config_of_the_engine_is_in_the_hash")
class LeavesOutTheConfig(Requests):
    def change(self, factors: dict[str, Any], context: Context) -> Mapping[str, Any]:
        return {name: value for name, value in factors.items() if name != "engine_config"}


@breaks("test_a_request_resolves_to_the_key_of_its_scope")
class HasOneKeyForAllRanks(DemoCache):
    @hookimpl
    def resolve(self, request: Request) -> str:
        return request.key("group")


@breaks("test_a_request_of_a_peer_resolves_to_the_same_key")
class HasAnotherKeyForPeers(DemoCache):
    @hookimpl
    def resolve(self, request: Request) -> str:
        return request.key("rank") if request.identity else replace(request, place=Place(rank=9)).key("rank")


@breaks("test_a_bad_hash_is_a_value_error")
class JudgesNoHash(DemoCache):
    @hookimpl
    def resolve(self, request: Request) -> str:
        return f"v1/{KIND}/{request.config_hash}/{request.place.name}"


# Payloads


@breaks("test_nothing_is_collected_where_nothing_stands")
class CollectsADefault(DemoCache):
    @hookimpl
    def collect(self, context: Context) -> Payload | None:
        return super().collect(context) or Payload({"1x1.plan": Blob.of(plan("1x1", "sm_90"))})


@breaks("test_a_warm_up_leaves_an_artifact")
class HasTooSmallACap(DemoCache):
    max_bytes = 100


@breaks("test_what_was_never_sealed_has_no_origin")
class MakesUpAnOrigin(DemoCache):
    @hookimpl
    def collect(self, context: Context) -> Payload | None:
        found = super().collect(context)
        if found is None or self._note(context).exists():
            return found
        return Payload(found, Origin("default", self.resolve(self._request(context)), "local"))


@breaks("test_a_good_artifact_is_valid_and_keeps_its_origin")
class DropsTheOrigin(DemoCache):
    @hookimpl
    def validate_payload(self, request: Request, payload: Payload) -> Payload:
        return Payload(super().validate_payload(request, payload))


@breaks("test_an_artifact_names_no_path_of_where_it_was_made")
class SaysWhereItWasMade(DemoCache):
    def _judge(self, name: str, data: bytes, request: Request) -> None:
        if name != "made-in.txt":
            super()._judge(name, data, request)
        elif not (data.startswith(b"/") and data.endswith(b"\n")):
            raise Reject(f"{name}: not a whole path")

    @hookimpl
    def collect(self, context: Context) -> Payload | None:
        found = super().collect(context)
        if found is None:
            return None
        path = self._folder / "made-in.txt"
        text = path.read_bytes() if path.exists() else f"{self._folder}\n".encode()
        payload = Payload({**found, "made-in.txt": Blob.of(text)})
        note = warmcore.read_note(self._note(context))
        return Payload(payload, note.origin_of(payload) if note else None)


@breaks("test_a_cut_file_is_refused")
class NeedsNoLastByte(DemoCache):
    def _judge(self, name: str, data: bytes, request: Request) -> None:
        super()._judge(name, data.removesuffix(b"\n") + b"\n", request)


@breaks("test_a_file_of_garbage_is_refused")
class PassesOverWhatItCanNotRead(DemoCache):
    def _judge(self, name: str, data: bytes, request: Request) -> None:
        if not data.startswith(b"\xff"):
            super()._judge(name, data, request)


@breaks("test_a_file_of_an_unknown_name_is_refused")
class LooksAtNoName(DemoCache):
    def _judge(self, name: str, data: bytes, request: Request) -> None:
        shape = data.partition(b"shape ")[2].partition(b"\n")[0].decode(errors="replace")
        super()._judge(f"{shape}.plan", data, request)


@breaks("test_another_environment_is_refused")
class LooksAtNoDriver(DemoCache):
    def _judge(self, name: str, data: bytes, request: Request) -> None:
        head, end, rest = data.partition(b" sm_")
        super()._judge(
            name, b"demo-plan " + DRIVER.encode() + end + rest if head.startswith(b"demo-plan") else data, request
        )


class Judges(DemoCache):
    """Change what a Reject says."""

    replaceable: bool

    def _judge(self, name: str, data: bytes, request: Request) -> None:
        try:
            super()._judge(name, data, request)
        except Reject as error:
            raise Reject(error.reason, replaceable=self.replaceable) from None


@breaks("test_another_environment_is_left_alone")
class ReplacesWhatIsGoodElsewhere(Judges):
    replaceable = True


@breaks("test_damage_may_be_replaced")
class LeavesDamageAlone(Judges):
    replaceable = False


@breaks("test_a_refusal_leaves_nothing_live")
class LoadsUpToTheFirstBadFile(DemoCache):
    @hookimpl
    def validate_payload(self, request: Request, payload: Payload) -> Payload:
        try:
            return super().validate_payload(request, payload)
        except Reject:
            for name, blob in payload.items():
                if self._fits(name, blob.read(self.max_bytes), request):
                    warmcore.write_whole(self._folder / name, blob.read(self.max_bytes))
            raise


@breaks("test_validation_leaves_nothing_live")
class LoadsWhatItJudges(DemoCache):
    @hookimpl
    def validate_payload(self, request: Request, payload: Payload) -> Payload:
        judged = super().validate_payload(request, payload)
        for name, blob in judged.items():
            warmcore.write_whole(self._folder / name, blob.read(self.max_bytes))
        return judged


@breaks("test_a_fingerprint_depends_on_the_artifact_alone")
class CountsFingerprints(DemoCache):
    @hookimpl
    def fingerprint(self, request: Request, payload: Payload) -> Fingerprint:
        return replace(super().fingerprint(request, payload), environment=str(next(calls)))


@breaks("test_a_fingerprint_shows_another_selection")
class FingerprintsTheDriverAlone(DemoCache):
    @hookimpl
    def fingerprint(self, request: Request, payload: Payload) -> Fingerprint:
        return Fingerprint(DRIVER, DRIVER, DRIVER)


class Merges(DemoCache):
    """Merge in another way."""

    def union(self, stored: Payload, ours: Payload) -> Mapping[str, Blob]:
        raise NotImplementedError

    @hookimpl
    def merge(self, request: Request, stored: Payload, ours: Payload) -> Payload:
        return Payload(self.union(stored, ours))


@breaks("test_a_merge_with_itself_changes_nothing")
class KeepsWhatDiffers(Merges):
    def union(self, stored: Payload, ours: Payload) -> Mapping[str, Blob]:
        return {} if stored.digest == ours.digest else {**stored, **ours}


@breaks("test_a_merge_never_shrinks")
class KeepsOurs(Merges):
    def union(self, stored: Payload, ours: Payload) -> Mapping[str, Blob]:
        return ours


@breaks("test_a_description_is_rows_of_text")
class DescribesInNumbers(DemoCache):
    @hookimpl
    def describe(self, payload: Payload) -> Sequence[dict[str, Any]]:
        return [{"plan": name, "bytes": blob.size} for name, blob in payload.items()]


# Installs


@breaks("test_what_is_installed_is_collected_with_its_origin")
class LeavesNoNote(DemoCache):
    @hookimpl
    def install(self, context: Context, payload: Payload) -> Undo:
        return super().install(context, Payload(payload))


@breaks("test_usage_tells_what_was_used")
class CountsNothingAsUsed(DemoCache):
    @hookimpl
    def usage(self, context: Context) -> Usage:
        return replace(super().usage(context), used=())


@breaks("test_a_second_install_changes_nothing")
class LogsRepeatedInstalls(DemoCache):
    @hookimpl
    def install(self, context: Context, payload: Payload) -> Undo:
        note = warmcore.read_note(self._note(context))
        if note and note.origin_of(payload) == payload.origin:
            (self._folder / "again.log").write_text("again")
        return super().install(context, payload)


class Undoes(DemoCache):
    """Put other undoing in the place of an install's own; `before` has all files by their path."""

    @hookimpl
    def install(self, context: Context, payload: Payload) -> Undo:
        before = {path: path.read_bytes() for path in self._folder.iterdir()}
        undo = super().install(context, payload)
        done: list[bool] = []

        def once() -> None:
            if not done:
                done.append(True)
                self.undo(undo, before, payload, self._note(context))

        return once

    def undo(self, undo: Undo, before: Mapping[Path, bytes], payload: Payload, note: Path) -> None:
        raise NotImplementedError


@breaks("test_undo_restores_an_empty_side")
class UndoLeavesTheNote(Undoes):
    def undo(self, undo: Undo, before: Mapping[Path, bytes], payload: Payload, note: Path) -> None:
        kept = note.read_bytes()
        undo()
        if not note.exists():
            note.write_bytes(kept)


@breaks("test_undo_restores_what_stood_before")
class UndoRemoves(Undoes):
    def undo(self, undo: Undo, before: Mapping[Path, bytes], payload: Payload, note: Path) -> None:
        for path in (note, *(self._folder / name for name in payload)):
            path.unlink()


@breaks("test_undo_takes_away_only_what_the_install_added")
class UndoClearsTheFolder(Undoes):
    def undo(self, undo: Undo, before: Mapping[Path, bytes], payload: Payload, note: Path) -> None:
        for path in self._folder.iterdir():
            path.unlink()
        for path, data in before.items():
            path.write_bytes(data)


@breaks("test_the_second_call_of_an_undo_does_nothing")
class UndoesEachTime(DemoCache):
    @hookimpl
    def install(self, context: Context, payload: Payload) -> Undo:
        names = [self._note(context), *(self._folder / name for name in payload)]
        before = {path: path.read_bytes() if path.exists() else None for path in names}
        super().install(context, payload)

        def undo() -> None:
            for path, data in before.items():
                path.unlink(missing_ok=True) if data is None else path.write_bytes(data)

        return undo


class InstallsFileByFile(DemoCache):
    """Have written what could be read when an install fails."""

    @hookimpl
    def install(self, context: Context, payload: Payload) -> Undo:
        read: dict[Path, bytes] = {}
        try:
            for name, blob in payload.items():
                read[self._folder / name] = blob.read(self.max_bytes)
        except Exception:
            self.failed(read)
            raise
        return super().install(context, payload)

    def failed(self, written: Mapping[Path, bytes]) -> None:
        raise NotImplementedError


@breaks("test_an_install_that_fails_leaves_nothing")
class LeavesHalfAnInstall(InstallsFileByFile):
    def failed(self, written: Mapping[Path, bytes]) -> None:
        for path, data in written.items():
            path.write_bytes(data)


@breaks("test_an_install_that_fails_leaves_what_stood_before")
class TakesAwayWhatStoodThere(InstallsFileByFile):
    def failed(self, written: Mapping[Path, bytes]) -> None:
        for path in written:
            path.unlink(missing_ok=True)


@breaks("test_damage_on_the_engines_side_is_no_longer_what_was_installed")
class TrustsTheNote(DemoCache):
    @hookimpl
    def collect(self, context: Context) -> Payload | None:
        found, note = super().collect(context), warmcore.read_note(self._note(context))
        return Payload(found, Origin(note.namespace, note.key, note.generation)) if found and note else found


@breaks("test_half_a_file_on_the_engines_side_is_not_collected")
class CollectsWhateverLiesThere(DemoCache):
    def _fits(self, name: str, data: bytes, request: Request) -> bool:
        return True


# Warm-ups


@breaks("test_a_warm_up_calls_the_engine_once")
class WarmsTwice(DemoCache):
    @hookimpl
    def warmup(self, context: Context) -> None:
        super().warmup(context)
        super().warmup(context)


@breaks("test_what_the_engine_raises_passes")
class ContainsTheEngine(DemoCache):
    @hookimpl
    def warmup(self, context: Context) -> None:
        try:
            super().warmup(context)
        except Exception as error:
            raise CacheError("the warm-up failed") from error


@breaks("test_a_warm_up_without_a_callable_does_nothing")
class NeedsACallable(DemoCache):
    @hookimpl
    def warmup(self, context: Context) -> None:
        with counting() as self._counts:
            context.warm_ups[KIND]()


# Relocation


class Remembers(DemoCache):
    """Know where the first artifact of this class was made."""

    made_in: ClassVar[Path | None] = None

    @hookimpl
    def collect(self, context: Context) -> Payload | None:
        found = super().collect(context)
        if found and type(self).made_in is None:
            type(self).made_in = self._folder
        return found

    @hookimpl
    def warmup(self, context: Context) -> None:
        if type(self).made_in not in (None, self._folder):
            self.before_a_warm_up_elsewhere(type(self).made_in or Path())
        super().warmup(context)

    def before_a_warm_up_elsewhere(self, made_in: Path) -> None:
        raise NotImplementedError


@breaks("test_it_works_elsewhere_while_the_old_place_holds_something_else")
class ReadsAtTheOldPlace(Remembers):
    def before_a_warm_up_elsewhere(self, made_in: Path) -> None:
        for path in made_in.glob("*.plan"):
            if (self._folder / path.name).exists():
                shutil.copy(path, self._folder)


@breaks("test_it_works_elsewhere_after_the_old_place_is_gone")
class NeedsTheOldPlace(Remembers):
    def before_a_warm_up_elsewhere(self, made_in: Path) -> None:
        if not made_in.exists():
            for path in list(self._folder.glob("*.plan")):
                path.unlink()
