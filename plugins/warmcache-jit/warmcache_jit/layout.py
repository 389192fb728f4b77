"""How Triton 3.6 and newer lay out a cache folder: a folder per kernel, in it a group file that lists the rest.

`<entry>/<kernel>.json`, `.cubin` and the stages before it, and `<entry>/__grp__<kernel>.json`. The entry's name is the
base32 of the hash in the metadata. Triton's group file holds absolute paths; the one that travels holds names alone.
"""

import base64
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from warmcache_jit.strictjson import strict_json
from warmcore import Blob, Payload, Reject

ENTRY = re.compile(r"[A-Z2-7]{52}")
MAX_JSON = 1 << 20

Files = Mapping[str, Blob]
"""The files of one entry by name, with the group file in the form that travels."""

_GROUP = "__grp__"
_HASH = re.compile(r"[0-9a-f]{64}")
# The stem is the name of a Python function; Triton cuts it to 150 characters.
_FILE = re.compile(r"(?P<stem>\w[\w.$-]{0,149})\.(?P<suffix>[a-z][a-z0-9]{0,15})")


def entry_name(hash_hex: str) -> str:
    """Return the folder name that Triton gives an entry of this hash; Reject unless it is 64 hex digits."""
    if not _HASH.fullmatch(hash_hex):
        raise Reject(f"hash {hash_hex!r:.80}: expected 64 hex digits")
    return base64.b32encode(bytes.fromhex(hash_hex)).decode().rstrip("=")


def entries_of(payload: Payload) -> dict[str, dict[str, Blob]]:
    """Take a payload apart by entry; Reject at a name that is not `<entry>/<file>`."""
    entries: dict[str, dict[str, Blob]] = {}
    for name, blob in payload.items():
        entry, _, file = name.partition("/")
        if not ENTRY.fullmatch(entry) or not file or "/" in file:
            raise Reject(f"file {name!r:.120}: expected <52 base32 characters>/<file>, as Triton 3.6 and newer have it")
        entries.setdefault(entry, {})[file] = blob
    return entries


def payload_files(entries: Mapping[str, Files]) -> dict[str, Blob]:
    """Put entries together again as the files of a payload."""
    return {f"{entry}/{name}": blob for entry, files in entries.items() for name, blob in files.items()}


def group_name(names: Iterable[str]) -> str:
    """Return the one group file among the names of an entry; Reject if there is none, or another one."""
    groups = [name for name in names if name.startswith(_GROUP) and name.endswith(".json")]
    if len(groups) != 1:
        raise Reject(f"{len(groups)} group files, expected 1: half made, or not a kernel")
    return groups[0]


def stem_of(group: str) -> str:
    """Return the kernel's file stem, from the name of its group file."""
    return group.removeprefix(_GROUP).removesuffix(".json")


def check_children(group: str, children: Iterable[str]) -> dict[str, str]:
    """Return the children's names by suffix; Reject unless all are `<kernel>.<suffix>`, the metadata among them."""
    found: dict[str, str] = {}
    for name in children:
        match = _FILE.fullmatch(name)
        if not match or match["stem"] != stem_of(group):
            raise Reject(f"file {name!r:.120} does not belong to the kernel {stem_of(group)!r:.80} of the group file")
        found[match["suffix"]] = name
    if "json" not in found:
        raise Reject(f"the group lists no metadata {stem_of(group)!r:.80}.json")
    return found


def render_group(children: Iterable[str], folder: Path | None = None) -> bytes:
    """Return a group file: with the children's paths in `folder`, or with their names alone, as it travels."""
    paths = {name: os.path.join(folder, name) if folder else name for name in children}
    return json.dumps({"child_paths": paths}, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def parse_group(data: bytes) -> dict[str, str]:
    """Return the children's paths by name, from a group file that Triton wrote; Reject on any other form."""
    group = strict_json(data, "group file")
    paths = group.get("child_paths") if isinstance(group, dict) else None
    if isinstance(paths, list):
        raise Reject("child_paths is a list: the form of Triton 2.x and of remote cache managers, which is not carried")
    if not isinstance(paths, dict) or not paths or not all(isinstance(path, str) for path in paths.values()):
        raise Reject("group file has no child_paths: half written, or of another form")
    return paths
