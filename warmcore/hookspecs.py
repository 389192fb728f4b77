"""All hooks, on one page. A plugin is a class; its methods marked `@hookimpl` implement these.

An implementation takes every argument, by these names: one that drops an argument is refused when it is loaded.
Constructor keyword arguments are the plugin's config keys, typed by their annotations (see warmcore/settings.py).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pluggy

from warmcore.blob import Payload
from warmcore.contracts import (
    Context,
    Entry,
    Expect,
    Fence,
    Fingerprint,
    Held,
    Lease,
    NotApplicable,
    Sink,
    Source,
    Undo,
    Usage,
)
from warmcore.identity import Request

if TYPE_CHECKING:
    from warmcore.report import Event

PROJECT = "warmcore"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class StoreSpec:
    """A store keeps sealed artifacts by key. Required: store_get, store_put; its hooks say what else it can do.

    All run in a daemon thread with a deadline. They may raise anything: it is contained, reported as an error of this
    store, and never counted as a miss. Prefer StoreError with what was found and what to do. A key arrives as
    `namespace/v1/kind/config-hash/name`: the core puts the namespace before it, so that no store can forget to; a store
    may take the first part as the tenant and nothing else of it.
    """

    @hookspec(firstresult=True)
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        """Write the bytes at `key` into `sink` and return their version; None if there are none.

        A wrapper that can't read what it got raises Reject with its version, so that a publish replaces exactly that.

        Called by the chain while adopting, by the CLI, and by wrappers. `fresh` asks for the strongest read there is.
        What was written is dropped unless a version is returned. Let what `sink.write` raises pass.
        """

    @hookspec(firstresult=True)
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        """Store all bytes of `source` at `key`, whole or not at all; False if `expect` or `fence` forbids it.

        Called by the chain while publishing and back-filling. `expect` is Expect.ANY, Expect.ABSENT or the version that
        must stand. A fence of another store is ignored; one of this store must name a lease that still stands.
        """

    @hookspec(firstresult=True)
    def store_list(self, prefix: str) -> list[Entry]:
        """Return the entries whose key starts with `prefix`, sorted by key, without moving values.

        Called by the CLI and `explain`.
        """

    @hookspec(firstresult=True)
    def store_delete(self, key: str, expect: Expect | str) -> bool:
        """Remove what stands at `key`; False if nothing does, or not what `expect` says.

        Called by the CLI alone, never by a check.
        """

    @hookspec(firstresult=True)
    def store_lease(self, key: str, entry: str, expect: Expect | str, ttl: float, note: float | None) -> Lease | Held:
        """Grant the right to warm `key` (`v1/kind/config-hash`) for `ttl` seconds, refreshed by the plugin; else Held.

        Granted when no lease stands at `key` and what stands at `entry` is as `expect` says. `note` is the last known
        duration of the warm-up in seconds, for those who wait. Called by rank 0 before the warm-up.
        """

    @hookspec(firstresult=True)
    def store_close(self) -> None:
        """Let go of connections and threads. Called once, when the session closes; may not block.

        A wrapper lets go of its own alone: the core closes what is inside it.
        """


class CacheSpec:
    """A cache knows one kind of artifact: how to name, check, install, make and collect it.

    All but merge, usage and describe are required. Class attributes: `scope` ("rank" or "group"), `max_bytes` (the cap
    of one artifact's body), `carries_code` (True: adopted from a shared store only if that store is trusted). All run
    on the engine's thread; an Exception is reported and the engine goes on, SystemExit and KeyboardInterrupt pass.
    """

    @hookspec(firstresult=True)
    def request_params(self, context: Context) -> Request | NotApplicable:
        """Build this start's request, once; or say why this kind has no part in it. Called first."""

    @hookspec(firstresult=True)
    def resolve(self, request: Request) -> str:
        """Check a request, ours or a peer's, and return the key of what it asks for; ValueError on a bad hash."""

    @hookspec(firstresult=True)
    def validate_payload(self, request: Request, payload: Payload) -> Payload:
        """Judge the whole payload before any of it is live; raise Reject if it is not fit. Returns what to install.

        Called with every payload, whether read, collected or about to be published. `payload.origin` must be kept.
        """

    @hookspec(firstresult=True)
    def install(self, context: Context, payload: Payload) -> Undo:
        """Put a validated payload where the engine's library will find it, whole or not at all; CacheError if it can't.

        Leaves a note beside it (`warmcore.write_note`). Installing what stands already changes nothing. Called after
        all ranks agreed, and after a publish with what was published.
        """

    @hookspec(firstresult=True)
    def warmup(self, context: Context) -> None:
        """Run `context.warm_ups[kind]` inside the library's own tuning context.

        Called always: with a good artifact it fills gaps. What the engine's callable raises passes to the engine.
        """

    @hookspec(firstresult=True)
    def collect(self, context: Context) -> Payload | None:
        """Read back what the engine's side holds of this identity now; None if nothing.

        Called before adopting and after the warm-up. `origin` is the note's if all files are still as the note says,
        else None. Whole entries only: half-made ones are left out.
        """

    @hookspec(firstresult=True)
    def merge(self, request: Request, stored: Payload, ours: Payload) -> Payload:
        """Return the union, for a publish over `stored`; it never shrinks.

        Without this hook: by file name, ours wins.
        """

    @hookspec(firstresult=True)
    def fingerprint(self, request: Request, payload: Payload) -> Fingerprint:
        """Return the digests that ranks compare before they agree."""

    @hookspec(firstresult=True)
    def usage(self, context: Context) -> Usage:
        """Say what of the installed was really used, as far as it can be told. Called after the warm-up."""

    @hookspec(firstresult=True)
    def describe(self, payload: Payload) -> Sequence[dict[str, str]]:
        """Return rows that people read, for `warmcore inspect`."""


class ExtensionSpec:
    """A listener: told of each event after the fact, in its own try. It can't change an outcome."""

    @hookspec(firstresult=True)
    def on_event(self, event: "Event") -> None:
        """Take one event. Called on the thread where it happened; return quickly."""
