"""A warmcore store that keeps sealed artifacts in a folder. Read store.py first, then place.py and lease.py."""

from warmcache_disk.store import DiskStore

__all__ = ["DiskStore"]
