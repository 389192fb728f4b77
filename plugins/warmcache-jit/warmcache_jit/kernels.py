"""The kind `triton_kernels`: what Triton compiled for one engine and one target, as whole entries of its folder."""

import logging
from collections.abc import Sequence
from pathlib import Path

from warmcache_jit.counter import CompileCounter
from warmcache_jit.folder import cache_folder
from warmcache_jit.identity import KIND, make_request
from warmcache_jit.install import install
from warmcache_jit.judge import Asked, judge, row
from warmcache_jit.layout import entries_of, payload_files
from warmcache_jit.packing import noted_entries, pack
from warmcore import (
    CacheError,
    Context,
    Fingerprint,
    NotApplicable,
    Note,
    Payload,
    Reject,
    Request,
    Undo,
    Usage,
    config_hash,
    hookimpl,
    read_note,
)

log = logging.getLogger(__name__)


class TritonKernels:
    """Carry compiled Triton kernels.

    `folder` is where Triton keeps them: its own default, unless given; Triton is pointed at it. `left_out` has entry
    and reason for each that the last collect did not pack.
    """

    scope = "group"
    max_bytes = 512 << 20
    carries_code = True

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._start()

    def _start(self) -> None:
        self._request: Request | None = None
        self._counter: CompileCounter | None = None
        self._installed: frozenset[str] = frozenset()
        self._live: Payload | None = None
        self.left_out: list[tuple[str, str]] = []

    @hookimpl
    def request_params(self, context: Context) -> Request | NotApplicable:
        self._start()
        request = make_request(context, self._folder)
        if isinstance(request, Request):
            self._request = request
        return request

    @hookimpl
    def resolve(self, request: Request) -> str:
        return request.key("group")

    @hookimpl
    def validate_payload(self, request: Request, payload: Payload) -> Payload:
        asked = Asked.of(request)
        for entry, files in entries_of(payload).items():
            try:
                judge(entry, files, asked)
            except Reject as error:
                raise Reject(f"entry {entry}: {error.reason}") from None
        return payload

    @hookimpl
    def install(self, context: Context, payload: Payload) -> Undo:
        before, self._live = self._installed, None
        take_back = install(cache_folder(self._folder), payload, self._note_name(context))

        def undo() -> None:
            self._installed, self._live = before, None
            take_back()

        # What a publish installs again, after the warm-up, was not there to be used.
        if self._counter is None:
            self._installed, self._live = frozenset(entries_of(payload)), payload
        return undo

    @hookimpl
    def warmup(self, context: Context) -> None:
        if warm_up := context.warm_ups.get(KIND):
            self._counter = CompileCounter()
            with self._counter:
                warm_up()

    @hookimpl
    def collect(self, context: Context) -> Payload | None:
        request, root, counter = self._asked(context), cache_folder(self._folder), self._counter
        live, self._live = self._live, None  # held no longer than it may be asked for
        if live and counter and not counter.compiled and self._installed.issuperset(counter.keys):
            self.left_out = []
            return live  # nothing was compiled: what this start installed is what there is to publish
        note = self._note(root, context)
        noted = noted_entries(note)
        seen, compiled = (counter.keys, counter.compiled_keys) if counter else ((), ())
        packed = pack(root, {*noted, *seen}, noted=noted, compiled=compiled, asked=Asked.of(request))
        self.left_out = packed.left_out
        for entry, reason in packed.left_out:
            log.debug("%s: left out %s: %s", root, entry, reason)
        if not packed.entries:
            return None
        if counter is None:
            self._installed = frozenset(packed.entries)
        payload = Payload(payload_files(packed.entries))
        payload.origin = note.origin_of(payload) if note else None
        return payload

    @hookimpl
    def merge(self, request: Request, stored: Payload, ours: Payload) -> Payload:  # noqa: ARG002  # a hook's signature
        return Payload(payload_files(entries_of(stored) | entries_of(ours)))

    @hookimpl
    def fingerprint(self, request: Request, payload: Payload) -> Fingerprint:
        entries, asked = entries_of(payload), Asked.of(request)
        found = [judge(entry, files, asked) for entry, files in entries.items()]
        made = {(metadata.target, metadata.triton_version) for metadata in found}
        return Fingerprint(config_hash(sorted(made)), config_hash(sorted(entries)), payload.digest)

    @hookimpl
    def usage(self, context: Context) -> Usage:  # noqa: ARG002  # a hook's signature
        if self._counter is None:
            return Usage(unknown=f"no warm-up of {KIND} ran: nothing was counted")
        loaded = self._installed.intersection(self._counter.hit_keys)
        return Usage(tuple(sorted(loaded)), tuple(sorted(self._installed - loaded)), self._counter.compiled_keys)

    @hookimpl
    def describe(self, payload: Payload) -> Sequence[dict[str, str]]:
        return [row(entry, files) for entry, files in entries_of(payload).items()]

    def _asked(self, context: Context) -> Request:
        request = self._request or self.request_params(context)
        if isinstance(request, NotApplicable):
            raise CacheError(request.reason)
        return request

    def _note_name(self, context: Context) -> str:
        return f".warmcore-{KIND}-{self._asked(context).config_hash}.json"

    def _note(self, root: Path, context: Context) -> Note | None:
        note = read_note(root / self._note_name(context))
        return note if note and note.key == self.resolve(self._asked(context)) else None
