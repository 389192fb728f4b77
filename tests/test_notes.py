"""The note beside an engine's folder: written whole, believed only while every file is as it says."""

import os
import stat
from pathlib import Path

import pytest

from warmcore import Blob, Note, Origin, Payload, read_note, write_note, write_whole
from warmcore.errors import CacheError

ORIGIN = Origin("default", "v1/triton_kernels/" + "0" * 64 + "/all", "g" * 32)


def payload_of(origin: Origin | None = ORIGIN, **files: bytes) -> Payload:
    return Payload({name: Blob.of(data) for name, data in files.items()}, origin)


class TestNote:
    def test_says_where_exactly_these_files_came_from(self, tmp_path: Path) -> None:
        write_note(tmp_path / "folder" / "note.json", payload_of(a=b"1", b=b"2"))
        note = read_note(tmp_path / "folder" / "note.json")
        assert note is not None
        assert note.origin_of(payload_of(None, a=b"1", b=b"2")) == ORIGIN

    @pytest.mark.parametrize(
        "files", [{}, {"a": b"1"}, {"a": b"1", "b": b"3"}, {"a": b"1", "b": b"2", "c": b""}, {"a": b"2", "b": b"1"}]
    )
    def test_is_not_believed_once_any_file_differs(self, tmp_path: Path, files: dict[str, bytes]) -> None:
        write_note(tmp_path / "note.json", payload_of(a=b"1", b=b"2"))
        note = read_note(tmp_path / "note.json")
        assert note is not None and note.origin_of(payload_of(None, **files)) is None

    def test_is_not_left_for_what_was_never_sealed(self, tmp_path: Path) -> None:
        write_note(tmp_path / "note.json", payload_of(None, a=b"1"))
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "text",
        [
            b"", b"{", b"{}", b"[]", b"null", b"\xff", b"\0" * 100, b"[" * 1_000_000, b'{"files":' * 100_000,
            b'{"namespace":"a","key":"b","generation":"c","files":{}} x',
            b'{"namespace":"a","key":"b","generation":"c","files":{},"more":1}',
            b'{"namespace":"a","key":"b","generation":"c","files":{"a":1}}',
            b'{"namespace":"a","key":"b","generation":"c"}',
            b'\xef\xbb\xbf{"namespace":"a","key":"b","generation":"c","files":{}}',
        ],
        ids=lambda text: ascii(text[:24]),
    )  # fmt: skip  # a table
    def test_that_is_none_is_the_same_as_no_note(self, tmp_path: Path, text: bytes) -> None:
        # IN-05
        (tmp_path / "note.json").write_bytes(text)
        assert read_note(tmp_path / "note.json") is None

    def test_that_cannot_be_read_is_the_same_as_no_note(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        (tmp_path / "file").write_text("x")
        for path in (tmp_path, tmp_path / "none", tmp_path / "link", tmp_path / "loop", tmp_path / "file" / "note"):
            assert read_note(path) is None

    def test_has_the_fields_that_are_documented(self) -> None:
        assert Note.__struct_fields__ == ("namespace", "key", "generation", "files")


class TestWriteWhole:
    def test_makes_missing_folders_and_leaves_nothing_but_the_file(self, tmp_path: Path) -> None:
        write_whole(tmp_path / "a" / "b" / "f", b"1")
        write_whole(tmp_path / "a" / "b" / "f", b"22")
        assert (tmp_path / "a" / "b" / "f").read_bytes() == b"22"
        assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["f"]

    @pytest.mark.parametrize("call", ["replace", "write"])
    @pytest.mark.parametrize(
        "error", [OSError(28, "No space left on device"), KeyboardInterrupt(), SystemExit(1)], ids=repr
    )
    def test_that_fails_leaves_the_old_file_and_no_other(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException
    ) -> None:
        write_whole(tmp_path / "f", b"old")

        def fail(*_: object) -> None:
            raise error

        if call == "replace":
            monkeypatch.setattr(os, "replace", fail)
            monkeypatch.setattr(Path, "replace", fail)
        else:
            monkeypatch.setattr("builtins.open", lambda *arguments, **_: Unwritable(arguments[0], fail))
        with pytest.raises(CacheError if isinstance(error, OSError) else type(error)) as caught:
            write_whole(tmp_path / "f", b"new")
        monkeypatch.undo()
        assert (tmp_path / "f").read_bytes() == b"old"
        assert [path.name for path in tmp_path.iterdir()] == ["f"]
        if isinstance(error, OSError):
            assert str(caught.value) == f"{tmp_path / 'f'} can't be written: No space left on device"

    def test_below_a_file_names_path_and_cause(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        for path in (tmp_path / "file" / "f", tmp_path / "file" / "deeper" / "f"):
            with pytest.raises(CacheError, match=r"/f can't be written: (Not a directory|File exists)"):
                write_whole(path, b"1")

    def test_over_a_folder_is_an_error_and_leaves_it(self, tmp_path: Path) -> None:
        (tmp_path / "f").mkdir()
        with pytest.raises(CacheError):
            write_whole(tmp_path / "f", b"1")
        assert [path.name for path in tmp_path.iterdir()] == ["f"]

    @pytest.mark.parametrize(
        ("mode", "umask", "expected"), [(0o666, 0o022, 0o644), (0o666, 0o002, 0o664), (0o600, 0o022, 0o600)]
    )
    def test_takes_its_mode_from_the_umask(self, tmp_path: Path, mode: int, umask: int, expected: int) -> None:
        before = os.umask(umask)
        try:
            write_whole(tmp_path / "f", b"1", mode=mode)
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == expected

    def test_replaces_a_link_and_not_what_it_leads_to(self, tmp_path: Path) -> None:
        (tmp_path / "target").write_bytes(b"theirs")
        (tmp_path / "f").symlink_to(tmp_path / "target")
        write_whole(tmp_path / "f", b"ours")
        assert (tmp_path / "target").read_bytes() == b"theirs" and (tmp_path / "f").read_bytes() == b"ours"


class Unwritable:
    """A file whose write fails, over a real descriptor that has to be closed."""

    def __init__(self, descriptor: int, fail: object) -> None:
        self.write, self._descriptor = fail, descriptor

    def __enter__(self) -> "Unwritable":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
