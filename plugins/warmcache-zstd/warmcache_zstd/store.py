"""The store: each hook is the inner store's, with the bytes compressed on their way in and out.

zstandard is imported by the modules that get and put load, so that listing or loading the plugin doesn't need it.
"""

from collections import deque
from typing import TYPE_CHECKING

from warmcore import ConfigError, Entry, Expect, Fence, Held, Lease, Sink, Source, Store, hookimpl

if TYPE_CHECKING:
    from zstandard import ZstdDecompressor

# Of what one process does at a time: a start asks one store after another, beside it a thread may back-fill.
KEPT = 2


class ZstdStore:
    """Keep sealed artifacts compressed in another store: `inner` is its name in the config.

    `level` is zstd's, 1 (fast) to 19 (small); higher ones need a larger window than a get allows.
    """

    def __init__(self, inner: Store, level: int = 3) -> None:
        if not 1 <= level <= 19:
            raise ConfigError(f"level is {level}: expected 1 (fast) to 19 (small)")
        self._inner = inner
        self._level = level
        self._idle: deque[ZstdDecompressor] = deque(maxlen=KEPT)

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:
        """Decompress into `sink` while the inner store reads; Reject unless what stands there is one whole frame."""
        from warmcache_zstd.unpack import unpacking

        with unpacking(sink, self._idle) as unpacker:
            version = self._inner.get(key, unpacker, fresh=fresh)
            if version is not None:
                unpacker.finish(version)
        return version

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:
        """Compress first: the inner store is told the size of what it gets."""
        from warmcache_zstd.pack import packed

        with packed(source, self._level) as smaller:
            return self._inner.put(key, smaller, expect, fence)

    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        """List with compressed sizes: the others would have to be read."""
        return self._inner.list(prefix)

    @hookimpl
    def store_delete(self, key: str, expect: Expect | str) -> bool:
        return self._inner.delete(key, expect)

    @hookimpl
    def store_lease(self, key: str, entry: str, expect: Expect | str, ttl: float, note: float | None) -> Lease | Held:
        return self._inner.lease(key, entry, expect, ttl, note)
