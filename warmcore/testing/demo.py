"""The smallest whole cache: kind `demo`, the plans of the fake library. docs/write-a-cache.md walks through it."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import warmcore
from warmcore.testing import engine as library

KIND = "demo"


class DemoCache:
    """Carry the plans that the library keeps in `folder`, one file for each shape."""

    scope = "rank"
    max_bytes = 1 << 20
    carries_code = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counts: library.Counts | None = None

    @warmcore.hookimpl
    def request_params(self, context: warmcore.Context) -> warmcore.Request | warmcore.NotApplicable:
        if context.capability is None:
            return warmcore.NotApplicable("the engine states no capability, and a plan is for one device")
        factors = {
            "device": library.device_of(context),
            "engine_config": context.config_hash,
            **{f"engine.{name}": value for name, value in context.factors.items()},
        }
        return warmcore.Request.of(KIND, warmcore.Identity(factors), context.place)

    @warmcore.hookimpl
    def resolve(self, request: warmcore.Request) -> str:
        return request.key("rank")

    @warmcore.hookimpl
    def validate_payload(self, request: warmcore.Request, payload: warmcore.Payload) -> warmcore.Payload:
        for name, blob in payload.items():
            self._judge(name, blob.read(self.max_bytes), request)
        return payload

    def _judge(self, name: str, data: bytes, request: warmcore.Request) -> None:
        plan = library.PLAN.fullmatch(data)
        if plan is None:
            raise warmcore.Reject(f"{name}: not a whole plan")
        if name != f"{plan['shape'].decode()}.plan":
            raise warmcore.Reject(f"{name}: a plan for shape {plan['shape'].decode()}")
        if request.identity and plan["device"].decode() != request.identity.factors["device"]:
            raise warmcore.Reject(f"{name}: for device {plan['device'].decode()}", replaceable=False)
        if plan["driver"].decode() != library.DRIVER:
            found = plan["driver"].decode()
            raise warmcore.Reject(f"{name}: driver was {found}, is {library.DRIVER}", replaceable=False)

    @warmcore.hookimpl
    def install(self, context: warmcore.Context, payload: warmcore.Payload) -> warmcore.Undo:
        # All of it is read before any of it is written: a store's bytes may turn out to be gone.
        files = {self._folder / name: blob.read(self.max_bytes) for name, blob in payload.items()}
        back = ExitStack()
        try:
            for path, data in files.items():
                back.callback(_restore, path, _read(path))
                warmcore.write_whole(path, data)
            back.callback(_restore, self._note(context), _read(self._note(context)))
            warmcore.write_note(self._note(context), payload)
        except BaseException:
            back.close()
            raise
        return back.close

    @warmcore.hookimpl
    def warmup(self, context: warmcore.Context) -> None:
        if warm_up := context.warm_ups.get(KIND):
            with library.counting() as self._counts:
                warm_up()

    @warmcore.hookimpl
    def collect(self, context: warmcore.Context) -> warmcore.Payload | None:
        request = self._request(context)
        plans = {path.name: _read(path) or b"" for path in self._folder.glob("*.plan")}
        fit = {name: warmcore.Blob.of(data) for name, data in plans.items() if self._fits(name, data, request)}
        note = warmcore.read_note(self._note(context))
        return warmcore.Payload(fit, note.origin_of(warmcore.Payload(fit)) if note else None) if fit else None

    @warmcore.hookimpl
    def fingerprint(self, request: warmcore.Request, payload: warmcore.Payload) -> warmcore.Fingerprint:
        # Judged, so all of one driver and one device: only those two are left to compare.
        device = request.identity.factors["device"] if request.identity else None
        environment = warmcore.config_hash([library.DRIVER, device])
        return warmcore.Fingerprint(environment, warmcore.config_hash(list(payload)), payload.digest)

    @warmcore.hookimpl
    def usage(self, context: warmcore.Context) -> warmcore.Usage:
        if self._counts is None:
            return warmcore.Usage(unknown="no warm-up ran: nothing was counted")
        note = warmcore.read_note(self._note(context))
        idle = set(note.files if note else ()).difference(self._counts.loaded, self._counts.made)
        return warmcore.Usage(tuple(self._counts.loaded), tuple(sorted(idle)), tuple(self._counts.made))

    @warmcore.hookimpl
    def describe(self, payload: warmcore.Payload) -> Sequence[dict[str, str]]:
        plans = {name: library.PLAN.fullmatch(blob.read(self.max_bytes)) for name, blob in payload.items()}
        return [{"plan": name, "tactic": plan["tactic"].decode() if plan else "?"} for name, plan in plans.items()]

    def _fits(self, name: str, data: bytes, request: warmcore.Request) -> bool:
        try:
            self._judge(name, data, request)
        except warmcore.Reject:
            return False
        return True

    def _request(self, context: warmcore.Context) -> warmcore.Request:
        request = self.request_params(context)
        if isinstance(request, warmcore.NotApplicable):
            raise warmcore.CacheError(request.reason)
        return request

    def _note(self, context: warmcore.Context) -> Path:
        return self._folder / f".warmcore-{KIND}-{self._request(context).config_hash}.json"


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _restore(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink(missing_ok=True)
    else:
        warmcore.write_whole(path, data)
