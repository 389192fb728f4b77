"""Which entries of Triton's folder are packed, and why others are left out."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from warmcache_jit.folder import read_entry
from warmcache_jit.judge import Asked, judge
from warmcache_jit.layout import ENTRY, Files
from warmcore import Note, Reject, StoreError

Digests = Mapping[str, Mapping[str, str]]
"""SHA-256 by entry and file name, as a note has them."""


@dataclass
class Packed:
    """The entries that are fit to travel, and (entry, reason) for each that is not."""

    entries: dict[str, Files] = field(default_factory=dict)
    left_out: list[tuple[str, str]] = field(default_factory=list)


def pack(root: Path, entries: Iterable[str], *, noted: Digests, compiled: Collection[str], asked: Asked) -> Packed:
    """Read the named entries, whole or not at all; one that is half made or vanishes meanwhile is left out."""
    packed = Packed()
    for entry in sorted(set(entries)):
        try:
            packed.entries[entry] = _read_fit(root, entry, noted.get(entry), entry in compiled, asked)
        except (Reject, StoreError) as error:
            packed.left_out.append((entry, str(error)))
    return packed


def noted_entries(note: Note | None) -> Digests:
    """Return a note's digests by entry."""
    entries: dict[str, dict[str, str]] = {}
    for name, digest in note.files.items() if note else ():
        entry, _, file = name.partition("/")
        entries.setdefault(entry, {})[file] = digest
    return entries


def _read_fit(root: Path, entry: str, noted: Mapping[str, str] | None, compiled: bool, asked: Asked) -> Files:
    # The name may come from a note, and a note from anybody.
    if not ENTRY.fullmatch(entry):
        raise Reject("not a name that Triton 3.6 or newer gives an entry")
    files = read_entry(root, entry)
    if noted == {name: blob.sha256 for name, blob in files.items()}:
        return files
    if noted is not None and not compiled:
        raise Reject("differs from what was installed, and this start did not compile it: damaged or replaced")
    judge(entry, files, asked)
    return files
