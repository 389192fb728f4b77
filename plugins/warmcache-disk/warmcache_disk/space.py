"""The file system below the root: whether a large object fits, and whether another host may share it."""

import logging
import os
from pathlib import Path

from warmcache_disk.place import Place
from warmcache_disk.root import Root
from warmcore import StoreError

LARGE = 8 << 20
MOUNTS = Path("/proc/self/mountinfo")

_NETWORK = frozenset(
    "9p afs beegfs ceph cifs coda fuse.ceph fuse.gcsfuse fuse.glusterfs fuse.juicefs fuse.s3fs fuse.sshfs glusterfs "
    "gpfs lustre ncpfs nfs nfs4 ocfs2 orangefs panfs smb3 smbfs wekafs".split()
)

_log = logging.getLogger(__name__)


def check_space(place: Place, size: int) -> None:
    """Raise StoreError if an object of 8 MiB or more can't fit; a system that does not tell refuses nothing."""
    if size < LARGE:
        return
    try:
        told = os.fstatvfs(place.folder)
    except OSError:
        return
    free = told.f_bavail * told.f_frsize
    if told.f_blocks and free < size:
        raise StoreError(
            f"{place.path} can't be written: it takes {size} bytes and {free} are free: free some space, or set "
            "another `path`"
        )


def warn_if_network(root: Root) -> None:
    """Log one line if the root is on a network file system. Never raises."""
    kind = network_type(root.path)
    if kind is not None:
        _log.warning(
            "%s is on a network file system (%s): locks may be local to each host, so leases and compare-and-swap hold "
            "for one host only; set a local `path`, or lease in another store",
            root.path,
            kind,
        )


def network_type(path: Path) -> str | None:
    """Return the type of the file system that holds `path` if it is a network's, as the mount table says."""
    try:
        device = os.stat(path).st_dev
        lines = MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return None
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for fields in map(str.split, lines):
        if len(fields) > 2 and fields[2] == wanted and "-" in fields[:-1]:
            kind = fields[fields.index("-") + 1]
            return kind if kind in _NETWORK else None
    return None
