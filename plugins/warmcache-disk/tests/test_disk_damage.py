"""Garbage, links and other people's files in a store: rejected, healed by the next publish, nothing harmed outside."""

import os
import random
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from disk_parts import Bytes, content_of, file_of, get, put, version_of

from warmcache_disk import DiskStore
from warmcore import Blob, BlobSource, Expect, Identity, Payload, Place, Reject, Request, StoreError
from warmcore.artifact import new_generation, seal, unseal

OURS = Request.of("triton_kernels", Identity({"gpu": "H200"}), Place())
OTHERS = Request.of("triton_kernels", Identity({"gpu": "H100"}), Place())


def _stored_key(request: Request) -> str:
    return f"default/{request.key('group')}"


def _publish(store: DiskStore, expect: Expect | str, request: Request = OURS) -> bool:
    payload = Payload({"k/k.cubin": Blob.of(os.urandom(5000))})
    key = request.key("group")
    _, blobs = seal(payload, request, key, namespace="default", keep=100, generation=new_generation(), cost=None)
    return store.store_put(_stored_key(request), BlobSource(*blobs), expect, None)


def _adopt(store: DiskStore) -> None:
    sink = Bytes()
    if store.store_get(_stored_key(OURS), sink, False) is None:
        raise Reject("missing")
    unseal(Blob.of(sink.data), OURS, OURS.key("group"), namespace="default")


def _cut(path: Path) -> None:
    os.truncate(path, random.randrange(path.stat().st_size))


DAMAGE: dict[str, Callable[[Path, Path], object]] = {
    "random": lambda path, _: path.write_bytes(random.randbytes(5500)),
    "empty": lambda path, _: path.write_bytes(b""),
    "cut": lambda path, _: _cut(path),
    "longer": lambda path, _: path.write_bytes(path.read_bytes() + b"x"),
    "another key's": lambda path, other: path.write_bytes(other.read_bytes()),
    "another key's behind this key's line": lambda path, other: path.write_bytes(
        path.read_bytes().partition(b"\n")[0] + b"\n" + other.read_bytes().partition(b"\n")[2]
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_rejected_keeps_one_version_and_is_healed_by_a_publish_over_that_version(
    store: DiskStore, root: Path, kind: str
) -> None:
    key = _stored_key(OURS)
    for _ in range(20):
        assert _publish(store, Expect.ANY)
        assert _publish(store, Expect.ANY, OTHERS)
        _adopt(store)
        good = version_of(store, key)
        DAMAGE[kind](file_of(root, key), file_of(root, _stored_key(OTHERS)))
        with pytest.raises(Reject):
            _adopt(store)
        bad = version_of(store, key)
        assert bad == version_of(store, key)
        assert bad != good or kind.endswith("line")
        assert not _publish(store, Expect.ABSENT)
        assert _publish(store, bad)
        _adopt(store)
        assert not _publish(store, bad)


def test_a_damaged_file_that_changes_again_is_no_longer_the_expected_one(store: DiskStore, root: Path) -> None:
    put(store, b"one")
    file_of(root).write_bytes(b"garbage")
    bad = version_of(store)
    file_of(root).write_bytes(b"rubbish")
    assert not put(store, b"two", expect=bad)


def test_a_listing_shows_files_whose_line_is_unreadable_and_the_true_size_of_what_was_cut(
    store: DiskStore, root: Path
) -> None:
    for name in ("good", "cut", "garbage", "link"):
        put(store, b"12345", key=name)
    os.truncate(file_of(root, "cut"), file_of(root, "cut").stat().st_size - 2)
    file_of(root, "garbage").write_bytes(b"garbage")
    file_of(root, "link").unlink()
    file_of(root, "link").symlink_to(file_of(root, "good"))
    put(store, b"54321", key="another's")
    file_of(root, "another's").write_bytes(file_of(root, "good").read_bytes())
    (root / "objects" / "notes.txt").write_text("somebody's")
    (file_of(root, "good").parent / "notes.txt").write_text("somebody's")
    listed = {entry.key: entry.size for entry in store.store_list("")}
    nameless = {"?" + file_of(root, key).name for key in ("garbage", "another's", "link")}
    assert (listed.pop("cut"), listed.pop("good"), set(listed)) == (3, 5, nameless)


def _socket(path: Path) -> None:
    here = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"/proc/self/fd/{here}/{path.name}"[-107:])
    os.close(here)


PLANTED: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda path, outside: path.symlink_to(outside),
    "dangling link": lambda path, outside: path.symlink_to(outside.parent / "new"),
    "pipe": lambda path, _: os.mkfifo(path),
    "socket": lambda path, _: _socket(path),
}


@pytest.mark.timeout(10)
@pytest.mark.parametrize("kind", PLANTED)
def test_what_is_planted_in_an_objects_place_is_named_never_read_and_replaced_by_a_put(
    store: DiskStore, root: Path, tmp_path: Path, kind: str
) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    put(store, b"one")
    file_of(root).unlink()
    PLANTED[kind](file_of(root), outside)
    with pytest.raises(Reject, match=f"{file_of(root).name} is a .*expected a file: remove it") as caught:
        get(store)
    assert not put(store, b"two", expect=Expect.ABSENT)
    assert put(store, b"two", expect=caught.value.version or "")
    assert content_of(store) == b"two"
    assert outside.read_bytes() == b"mine"
    assert not (tmp_path / "new").exists()


def test_a_folder_in_an_objects_place_is_named_and_nothing_in_it_is_removed(store: DiskStore, root: Path) -> None:
    put(store, b"one")
    file_of(root).unlink()
    file_of(root).mkdir()
    (file_of(root) / "mine").write_bytes(b"mine")
    with pytest.raises(Reject, match="is a folder, expected a file"):
        get(store)
    with pytest.raises(StoreError, match="Is a directory: a folder stands where a file is expected"):
        put(store, b"two")
    assert (file_of(root) / "mine").read_bytes() == b"mine"


def test_a_put_never_writes_through_a_hard_link(store: DiskStore, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    put(store, b"one")
    file_of(root).unlink()
    os.link(outside, file_of(root))
    (file_of(root).parent / ".lock").unlink()
    os.link(outside, file_of(root).parent / ".lock")
    assert put(store, b"two")
    assert outside.read_bytes() == b"mine"


@pytest.mark.parametrize("depth", [0, 1])
def test_a_link_in_the_place_of_a_folder_is_not_followed(
    store: DiskStore, root: Path, tmp_path: Path, depth: int
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    planted = (root / "objects", file_of(root).parent)[depth]
    planted.parent.mkdir(parents=True)
    planted.symlink_to(outside)
    with pytest.raises(StoreError, match="remove it"):
        put(store, b"one")
    with pytest.raises(StoreError, match="remove it"):
        get(store)
    assert list(outside.iterdir()) == []


def test_a_link_in_the_place_of_the_lock_is_not_followed(store: DiskStore, root: Path, tmp_path: Path) -> None:
    put(store, b"one")
    lock = file_of(root).parent / ".lock"
    lock.unlink()
    lock.symlink_to(tmp_path / "outside")
    with pytest.raises(StoreError, match="a link stands where none is expected: remove it"):
        put(store, b"two")
    assert not (tmp_path / "outside").exists()
