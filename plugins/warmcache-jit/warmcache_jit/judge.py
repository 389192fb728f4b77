"""What an entry must be to be packed or installed: whole, of its own name, for the target asked for, loadable."""

import codecs
import struct
from dataclasses import dataclass

from warmcache_jit.layout import MAX_JSON, Files, check_children, entry_name, group_name, render_group
from warmcache_jit.metadata import Metadata, read_metadata
from warmcore import Blob, Reject, Request

_MACHINES = (190, 224)
"""ELF's numbers for CUDA and AMD GPUs."""


@dataclass(frozen=True)
class Asked:
    """The factors that an entry is compared with; None where the request has no identity."""

    target: str | None = None
    triton_version: str | None = None

    @classmethod
    def of(cls, request: Request) -> "Asked":
        factors = request.identity.factors if request.identity else {}
        target, version = factors.get("target"), factors.get("triton_version")
        return cls(None if target is None else str(target), None if version is None else str(version))


def judge(entry: str, files: Files, asked: Asked) -> Metadata:
    """Return the metadata of an entry that is fit to travel and to install; Reject with the reason if it is not."""
    group = group_name(files)
    children = [name for name in files if name != group]
    suffixes = check_children(group, children)
    if files[group].read(MAX_JSON) != render_group(children):
        raise Reject("group file does not list exactly the files beside it, by name alone")
    metadata = read_metadata(files[suffixes["json"]])
    _check_asked(entry, metadata, asked)
    _check_files(files, suffixes, metadata.binary)
    return metadata


def row(entry: str, files: Files) -> dict[str, str]:
    """Return what people read of an entry; Reject if it is not fit."""
    found = judge(entry, files, Asked())
    return {
        "kernel": found.name,
        "entry": entry,
        "target": found.target,
        "num_warps": str(found.num_warps),
        "shared": str(found.shared),
        "bytes": str(sum(blob.size for blob in files.values())),
    }


def _check_asked(entry: str, metadata: Metadata, asked: Asked) -> None:
    if entry != entry_name(metadata.hash):
        raise Reject(f"metadata hash {metadata.hash!r:.80} does not give this folder name: renamed or tampered with")
    if asked.target not in (None, metadata.target):
        raise Reject(f"compiled for {metadata.target!r:.80}, asked for {asked.target!r}")
    if asked.triton_version not in (None, metadata.triton_version):
        raise Reject(f"compiled by Triton {metadata.triton_version!r:.40}, asked for {asked.triton_version!r}")


def _check_files(files: Files, suffixes: dict[str, str], binary: str) -> None:
    if binary not in suffixes:
        raise Reject(f"no {binary} among its files")
    for suffix, name in suffixes.items():
        if not files[name].size:
            raise Reject(f"file {name!r:.120} is empty")
        if suffix == binary:
            _check_elf(name, files[name])
        elif suffix != "json":
            _check_text(name, files[name])


def _check_text(name: str, blob: Blob) -> None:
    # Triton reads every stage but the binary as text, and would raise in the engine.
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for chunk in blob.chunks():
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise Reject(f"file {name!r:.120} is not UTF-8 text: {error.reason}") from None


def _check_elf(name: str, blob: Blob) -> None:
    """Reject a binary that is no 64-bit ELF file or was cut: both of its header tables must lie within it."""
    head = blob.part(0, min(blob.size, 64)).read(64)
    if len(head) < 64 or head[:5] != b"\x7fELF\x02":
        raise Reject(f"file {name!r:.120} is not a 64-bit ELF file")
    if struct.unpack_from("<H", head, 18)[0] not in _MACHINES:
        raise Reject(f"file {name!r:.120} is an ELF file for another machine than a GPU")
    segments_at, sections_at = struct.unpack_from("<QQ", head, 32)
    segment_size, segments, section_size, sections = struct.unpack_from("<4H", head, 54)
    end = max(segments_at + segment_size * segments, sections_at + section_size * sections)
    if not sections:
        raise Reject(f"file {name!r:.120} is an ELF file without content")
    if end > blob.size:
        raise Reject(f"file {name!r:.120} is {blob.size} bytes, its header promises {end}: cut short")
