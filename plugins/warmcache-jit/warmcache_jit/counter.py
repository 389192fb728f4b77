"""Count compiles by Triton's own word: its compilation listener."""

from typing import Any, Self

from warmcache_jit.layout import entry_name


class CompileCounter:
    """Count what Triton compiles and what it loads from its cache folder while this is entered.

    A listener that stood before is still called, and stands again afterwards. A specialisation that this process has in
    memory already is neither: Triton does not look for it again.
    """

    def __init__(self) -> None:
        self._events: list[tuple[str, bool]] = []
        self._previous: Any = None
        self._entered = False

    @property
    def compiled_keys(self) -> tuple[str, ...]:
        """Entry names of what was compiled, in order of first appearance."""
        return tuple(dict.fromkeys(key for key, hit in self._events if not hit))

    @property
    def hit_keys(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key for key, hit in self._events if hit))

    @property
    def keys(self) -> tuple[str, ...]:
        """Entry names of all that was compiled or loaded, in order of first appearance."""
        return tuple(dict.fromkeys(key for key, _ in self._events))

    @property
    def compiled(self) -> int:
        return sum(not hit for _, hit in self._events)

    @property
    def hits(self) -> int:
        return sum(hit for _, hit in self._events)

    def __enter__(self) -> Self:
        from triton import knobs

        self._previous, self._entered = knobs.compilation.listener, True
        knobs.compilation.listener = self._listen
        return self

    def __exit__(self, *_: object) -> None:
        from triton import knobs

        self._entered = False
        # Whoever put a listener over ours meanwhile keeps it; ours goes on passing events down.
        if knobs.compilation.listener == self._listen:
            knobs.compilation.listener = self._previous

    def _listen(self, **event: Any) -> None:
        if self._entered:
            self._events.append((entry_name(event["metadata"]["hash"]), bool(event["cache_hit"])))
        if self._previous is not None:
            self._previous(**event)
