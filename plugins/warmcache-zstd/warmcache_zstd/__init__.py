"""A warmcore store that compresses what another store keeps."""

from warmcache_zstd.store import ZstdStore as ZstdStore

__all__ = ["ZstdStore"]
