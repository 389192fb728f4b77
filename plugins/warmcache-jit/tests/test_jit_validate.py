"""Payloads from outside: each is judged whole, and nothing that Triton's loader would refuse is accepted."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import warmcore
from warmcache_jit import TritonKernels, offline_driver

Files = dict[str, bytes]
Change = Callable[[Files, str], object]


@pytest.fixture
def files(payload: warmcore.Payload) -> Files:
    return {name: blob.read(1 << 30) for name, blob in payload.items()}


def payload_of(files: Files) -> warmcore.Payload:
    return warmcore.Payload({name: warmcore.Blob.of(data) for name, data in files.items()})


def pick(files: Files, suffix: str, entry: str = "") -> str:
    return min(name for name in files if name.startswith(entry) and name.endswith(suffix) and "__grp__" not in name)


def group(files: Files, entry: str) -> str:
    return next(name for name in files if name.startswith(f"{entry}/__grp__"))


def edit(files: Files, entry: str, **fields: object) -> None:
    name = pick(files, ".json", entry)
    files[name] = json.dumps(json.loads(files[name]) | fields).encode()


def target(files: Files, entry: str, **fields: object) -> None:
    edit(files, entry, target={"backend": "cuda", "arch": 90, "warp_size": 32} | fields)


def recode(files: Files, entry: str, change: Callable[[bytes], bytes]) -> None:
    name = pick(files, ".json", entry)
    files[name] = change(files[name])


def splice(files: Files, entry: str, text: bytes) -> None:
    name = pick(files, ".json", entry)
    files[name] = b"{" + text + b", " + files[name][1:]


def rename(files: Files, old: str, new: str) -> None:
    files[new] = files.pop(old)


def move(files: Files, entry: str, other: str) -> None:
    for name in [name for name in files if name.startswith(entry)]:
        files[other + name[len(entry) :]] = files.pop(name)


def regroup(files: Files, entry: str, paths: object) -> None:
    files[group(files, entry)] = json.dumps({"child_paths": paths}, separators=(",", ":"), sort_keys=True).encode()


def put(files: Files, name: str, data: bytes) -> None:
    files[name] = data


def names(files: Files, entry: str) -> list[str]:
    return [name.split("/")[1] for name in files if name.startswith(entry) and "__grp__" not in name]


HOSTILE: dict[str, tuple[Change, str]] = {
    "a file at the root": (lambda f, e: put(f, "x.cubin", b"x"), "expected <52 base32"),
    "a deeper folder": (lambda f, e: put(f, f"{e}/a/b", b"x"), "expected <52 base32"),
    "a short entry name": (lambda f, e: move(f, e, e[:-1]), "expected <52 base32"),
    "a lower-case entry name": (lambda f, e: move(f, e, e.lower()), "expected <52 base32"),
    "another entry name": (lambda f, e: move(f, e, "A" * 52), "renamed or tampered with"),
    "a climbing name": (lambda f, e: put(f, "../" + e, b"x"), "expected <52 base32"),
    "no group file": (lambda f, e: f.pop(group(f, e)), "0 group files"),
    "two group files": (lambda f, e: put(f, f"{e}/__grp__other.json", b"{}"), "2 group files"),
    "a group of absolute paths": (
        lambda f, e: regroup(f, e, {n: f"/old/{e}/{n}" for n in names(f, e)}),
        "by name alone",
    ),
    "a group in list form": (lambda f, e: regroup(f, e, names(f, e)), "by name alone"),
    "a group that lists one less": (lambda f, e: regroup(f, e, {n: n for n in names(f, e)[1:]}), "by name alone"),
    "a group that lists one more": (lambda f, e: regroup(f, e, {n: n for n in [*names(f, e), "z"]}), "by name alone"),
    "a big group file": (lambda f, e: put(f, group(f, e), b" " * (2 << 20)), "the cap is"),
    "a missing cubin": (lambda f, e: f.pop(pick(f, ".cubin", e)), "by name alone"),
    "a missing metadata": (lambda f, e: f.pop(pick(f, ".json", e)), "no metadata"),
    "a file of another kernel": (lambda f, e: put(f, f"{e}/other.ptx", b"x"), "does not belong to the kernel"),
    "a library": (lambda f, e: put(f, f"{e}/evil.so", b"\x7fELF"), "does not belong to the kernel"),
    "an empty cubin": (lambda f, e: put(f, pick(f, ".cubin", e), b""), "is empty"),
    "a cut cubin": (lambda f, e: put(f, pick(f, ".cubin", e), f[pick(f, ".cubin", e)][:-1]), "cut short"),
    "a cubin of 32 bits": (lambda f, e: put(f, pick(f, ".cubin", e), b"\x7fELF\x01" + b"\0" * 99), "64-bit ELF"),
    "a stage that is no text": (lambda f, e: put(f, pick(f, ".ttir", e), b"\xff\xfe"), "not UTF-8"),
    "a stage cut in a letter": (lambda f, e: put(f, pick(f, ".ttir", e), b"\xc3"), "not UTF-8"),
    "another chip": (lambda f, e: target(f, e, arch=80), "asked for"),
    "another warp size": (lambda f, e: target(f, e, warp_size=64), "asked for"),
    "an unknown backend": (lambda f, e: target(f, e, backend="x"), "backends"),
    "an arch that is true": (lambda f, e: target(f, e, arch=True), "expected"),
    "a target with more": (lambda f, e: target(f, e, x=1), "expected"),
    "another Triton": (lambda f, e: edit(f, e, triton_version="3.5.0"), "compiled by Triton '3.5.0'"),
    "another hash": (lambda f, e: edit(f, e, hash="0" * 64), "renamed or tampered with"),
    "a hash that is none": (lambda f, e: edit(f, e, hash="zz"), "expected 64 hex digits"),
    "a hash with a newline": (lambda f, e: edit(f, e, hash="0" * 64 + "\n"), "expected 64 hex digits"),
    "shared memory as text": (lambda f, e: edit(f, e, shared="16"), "metadata 'shared'"),
    "warps as a float": (lambda f, e: edit(f, e, num_warps=4.0), "metadata 'num_warps'"),
    "a name with a newline": (lambda f, e: edit(f, e, name="a\nb"), "not printable"),
    "a lone surrogate": (lambda f, e: edit(f, e, name="\ud800"), "not printable"),
    "a key that is a keyword": (lambda f, e: edit(f, e, **{"class": 1}), "keys are names"),
    "a private key": (lambda f, e: edit(f, e, _x=1), "keys are names"),
    "an overridden kernel": (lambda f, e: edit(f, e, ir_override="/tmp/x.ttir"), "ir_override"),
    "a duplicate key": (lambda f, e: splice(f, e, b'"hash": "x"'), "a key stands twice"),
    "not a number": (lambda f, e: splice(f, e, b'"x": NaN'), "NaN is not a number"),
    "an infinity": (lambda f, e: splice(f, e, b'"x": 1e999'), "not finite"),
    "a huge number": (lambda f, e: splice(f, e, b'"x": ' + b"9" * 100_000), "not strict JSON"),
    "depth": (lambda f, e: splice(f, e, b'"x": ' + b"[" * 400_000 + b"]" * 400_000), "not strict JSON"),
    "metadata as a list": (lambda f, e: put(f, pick(f, ".json", e), b"[]"), "not an object"),
    "big metadata": (lambda f, e: splice(f, e, b'"x": "' + b"a" * (1 << 20) + b'"'), "the cap is"),
    "a byte order mark": (lambda f, e: recode(f, e, lambda text: b"\xef\xbb\xbf" + text), "strict JSON"),
    "UTF-16": (lambda f, e: recode(f, e, lambda text: text.decode().encode("utf-16")), "strict JSON"),
    "trailing bytes": (lambda f, e: recode(f, e, lambda text: text + b"x"), "strict JSON"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_payload_is_refused_with_its_reason(name: str, files: Files, asked: warmcore.Request) -> None:
    change, reason = HOSTILE[name]
    change(files, max(files).split("/")[0])
    with pytest.raises(warmcore.Reject, match=reason):
        TritonKernels().validate_payload(asked, payload_of(files))


def test_a_good_payload_passes_with_its_origin(payload: warmcore.Payload, asked: warmcore.Request) -> None:
    assert TritonKernels().validate_payload(asked, payload).origin == payload.origin


def test_the_entry_is_named(files: Files, asked: warmcore.Request) -> None:
    entry = max(files).split("/")[0]
    edit(files, entry, hash="0" * 64)
    with pytest.raises(warmcore.Reject, match=f"entry {entry}: "):
        TritonKernels().validate_payload(asked, payload_of(files))


def test_a_peers_request_has_no_identity_to_compare_with(files: Files, asked: warmcore.Request) -> None:
    peer = replace(asked, identity=None)
    edit(files, max(files).split("/")[0], triton_version="3.7.0")
    TritonKernels().validate_payload(peer, payload_of(files))
    edit(files, max(files).split("/")[0], hash="0" * 64)
    with pytest.raises(warmcore.Reject):
        TritonKernels().validate_payload(peer, payload_of(files))


def mutations(files: Files, trials: int) -> Iterator[Files]:
    random_ = random.Random(20)
    for _ in range(trials):
        entry = max(files).split("/")[0]
        changed = {name: data for name, data in files.items() if name.startswith(entry)}
        name = random_.choice([pick(changed, ".json"), *changed])
        data, at = bytearray(changed[name]), random_.randrange(len(changed[name]))
        kind = random_.randrange(4)
        if kind == 0:
            data[at] ^= 1 << random_.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            del data[at : at + random_.randrange(1, 40)]
        else:
            data[at:at] = data[at : at + random_.randrange(1, 40)]
        yield changed | {name: bytes(data)}


def test_what_is_accepted_is_what_tritons_own_loader_accepts(
    files: Files, asked: warmcore.Request, tmp_path: Path
) -> None:
    accepted = 0
    with offline_driver("cuda:90"):
        for changed in mutations(files, trials=300):
            try:
                TritonKernels().validate_payload(asked, payload_of(changed))
            except warmcore.Reject:
                continue
            accepted += 1
            load(changed, tmp_path)
    assert accepted


def load(files: Files, folder: Path) -> None:
    from triton.compiler.compiler import CompiledKernel

    paths = {}
    for name in (name for name in files if "__grp__" not in name):
        paths[name.split("/")[1]] = str(folder / name.split("/")[1])
        (folder / name.split("/")[1]).write_bytes(files[name])
    CompiledKernel(SimpleNamespace(), paths, "")
