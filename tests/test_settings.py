"""A plugin's annotations are its config: a value becomes what they say, or one clear line; no secret is shown."""

import inspect
import math
import os
from pathlib import Path
from typing import Any, Literal

import pytest

from warmcore import Duration, Secret, Size
from warmcore.errors import ConfigError
from warmcore.settings import convert, parameters, parse_path

PLACE = "stores.local.key"


def complaint(value: object, annotation: object) -> str:
    with pytest.raises(ConfigError) as caught:
        convert(value, annotation, PLACE)
    text = str(caught.value)
    assert text.startswith(f"{PLACE}: ") and "\n" not in text and len(text) < 300
    return text


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        ("x", str, "x"),
        ("", str, ""),
        (True, bool, True),
        (7, int, 7),
        (-7, int, -7),
        (["a", "b"], list[str], ["a", "b"]),
        ([], list[str], []),
        ("0B", Size, 0),
        ("3KiB", Size, 3 << 10),
        ("10 GiB", Size, 10 << 30),
        ("2TiB", Size, 2 << 40),
        (4096, Size, 4096),
        ("250ms", Duration, 0.25),
        ("10s", Duration, 10.0),
        ("1.5min", Duration, 90.0),
        ("2h", Duration, 7200.0),
        ("30d", Duration, 2_592_000.0),
        (0, Duration, 0.0),
        (2.5, Duration, 2.5),
        ("read", Literal["read", "read-write"], "read"),
    ],
)
@pytest.mark.parametrize("optional", [False, True])
def test_a_value_becomes_what_the_annotation_says(
    value: object, annotation: Any, expected: object, optional: bool
) -> None:
    found = convert(value, annotation | None if optional else annotation, PLACE)
    assert found == expected
    assert type(found) is (annotation if isinstance(annotation, type) else type(expected))


@pytest.mark.parametrize(
    ("annotation", "bad"),
    [
        (str, [1, 1.0, True, None, [], {}, b"x"]),
        (bool, [0, 1, "true", "yes", "", None]),
        (int, [True, 1.0, "1", None, math.nan]),
        (list[str], ["a", [1], [None], [["a"]], ("a",), {"a": 1}, None]),
        (Size, ["10GB", "10", "GiB", "-1B", "1.5GiB", "1e3B", "10gib", " 1B", "1B\n"]),
        (Size, [-1, True, 1.0, "", None, [1], "9" * 5000 + "B"]),
        (Duration, ["10", "s", "-1s", "1 sec", "1m", "1e3s", "1s\n", ""]),
        (Duration, [-1, -0.1, True, math.nan, math.inf, 1e10, None, "9" * 400 + "d"]),
        (Path, [1, None, [], {}, True, "a\0b"]),
        (Literal["read", "read-write"], ["write", "", 1, None, ["read"], {}]),
        (Secret, ["canary-2718", {}, {"file": 1}, {"value": "canary-2718"}, ["canary-2718"]]),
        (Secret, [{"file": "a", "env": "B"}, {"env": None}, None]),
    ],
)  # fmt: skip  # a table
def test_a_wrong_value_is_named_with_what_was_expected(annotation: object, bad: list[object]) -> None:
    for value in bad:
        text = complaint(value, annotation)
        assert "expected " in text and type(value).__name__ in text
        assert "canary-2718" not in text


@pytest.mark.parametrize("annotation", [float, dict, list, list[int], object, bytes, str | int, Any, "str"])
def test_a_type_that_config_cannot_give_is_the_plugins_mistake(annotation: object) -> None:
    assert "plugin declares a type" in complaint("x", annotation)


def test_credentials_in_a_url_are_not_repeated() -> None:
    assert "canary-2718" not in complaint("https://me:canary-2718@etcd:2379", int)
    assert "canary-2718" not in complaint(["https://me:canary-2718@etcd:2379", 1], list[str])


class TestPath:
    def test_empty_and_blank_mean_the_default_and_never_the_current_folder(self) -> None:
        # TR-10
        assert [parse_path(text) for text in ("", " ", "\t\n")] == [None] * 3

    def test_a_tilde_expands_and_relative_becomes_absolute_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # TR-10
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.chdir(tmp_path)
        assert parse_path("~") == tmp_path / "home"
        assert parse_path("~/a") == tmp_path / "home" / "a"
        relative = parse_path("a/../b")
        assert relative == tmp_path / "b"
        monkeypatch.chdir("/")
        assert relative == parse_path(str(tmp_path / "b"))

    def test_a_tilde_that_has_no_home_is_refused_and_becomes_no_folder_of_that_name(self) -> None:
        assert "HOME" in complaint("~nobody-of-this-name/x", Path)


class TestSecret:
    def test_is_read_when_asked_for_and_not_before(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from_file = convert({"file": str(tmp_path / "token")}, Secret, PLACE)
        from_variable = convert({"env": "TOKEN_OF_TEST"}, Secret, PLACE)
        (tmp_path / "token").write_text("canary-2718\n")
        monkeypatch.setenv("TOKEN_OF_TEST", "canary-3141")
        assert (from_file.reveal(), from_variable.reveal()) == ("canary-2718", "canary-3141")

    def test_is_never_shown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # P12
        monkeypatch.setenv("TOKEN_OF_TEST", "canary-2718")
        secret = convert({"env": "TOKEN_OF_TEST"}, Secret, PLACE)
        assert {repr(secret), str(secret), f"{secret}", f"{secret!r}", repr([secret])[1:-1]} == {"***"}
        secret.reveal()
        assert "canary-2718" not in repr(vars(secret))

    @pytest.mark.parametrize(
        "source", [{"file": "/none/token"}, {"file": "/"}, {"file": "a\0b"}, {"env": "NONE_OF_TEST"}]
    )
    def test_that_is_gone_is_a_config_error_that_says_which(self, source: dict[str, str]) -> None:
        with pytest.raises(ConfigError, match=r"can't be read .* create it, or name another") as caught:
            convert(source, Secret, PLACE).reveal()
        assert "\0" not in str(caught.value)

    def test_file_that_is_no_text_is_a_config_error_without_its_bytes(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_bytes(b"canary\xff\xfe")
        with pytest.raises(ConfigError, match="token") as caught:
            convert({"file": str(tmp_path / "token")}, Secret, PLACE).reveal()
        assert "canary" not in str(caught.value)

    def test_file_below_a_home_that_is_not_there_is_a_config_error(self) -> None:
        with pytest.raises(ConfigError):
            convert({"file": "~nobody-of-this-name/token"}, Secret, PLACE).reveal()


class TestParameters:
    def test_are_the_arguments_of_init_with_their_types_and_defaults(self) -> None:
        class Plugin:
            def __init__(
                self, path: Path | None = None, *, max_bytes: Size, names: "tuple[str, ...]" = (), **rest: int
            ) -> None:
                pass

        found = parameters(Plugin)
        assert {name: annotation for name, (annotation, _) in found.items()} == {
            "path": Path | None,
            "max_bytes": Size,
            "names": tuple[str, ...],
        }
        assert [found[name][1] for name in ("path", "names")] == [None, ()]
        assert found["max_bytes"][1] is inspect.Parameter.empty

    def test_of_a_class_without_init_there_are_none(self) -> None:
        assert parameters(type("Plugin", (), {})) == {}

    def test_are_inherited(self) -> None:
        class Base:
            def __init__(self, url: str) -> None:
                pass

        assert list(parameters(type("Plugin", (Base,), {}))) == ["url"]


def test_sizes_and_durations_stay_numbers() -> None:
    assert Size(5) + 1 == 6 and Duration(1.5) * 2 == 3.0
    assert os.path.getsize(__file__) < Size(1 << 20)
