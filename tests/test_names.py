"""A name from outside is hostile until the one rule says otherwise."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmcore import IdentityError, Reject, names

HOSTILE = [
    # out of the folder
    "..", ".", "../x", "a/..", "a/../b", "a/../../b", "./a", "a/.", "a/./b", "/", "/etc/passwd", "//host/share", "a//b",
    "a/", "/a/",
    # other systems' ways out
    "\\", "a\\b", "..\\x", "\\\\host\\share", "C:", "C:x", "C:\\x", "C:/x", "a:stream", "a/b:$DATA", "file:x",
    # characters that file systems, shells and terminals read
    "", "\0", "a\0b", "a\nb", "a\n", "\n", "a\rb", "a\tb", "\x1b[2J", "a\x7f", "a\x85b", "a\u2028b", "a\u2029b", "a*",
    "a?", '"a"', "<a", "a>", "a|b",
    # characters that nobody sees
    "\u200b", "a\u200bb", "\ufeffa", "a\u202eb", "a\u2066b", "a\xadb", "a\u00a0b", "a\u3000b", "a\ue000b",
    "a\U000e0041",
    # not text, or not in normal form C
    "\ud800", "a\udcffb", "e\u0301", "a/e\u0301", "\u212b", "\u1100\u1161", "\uf900",
    # cut short by other systems
    " ", " a", "a ", "a/ b", "a /b", "a.", "a..", "a./b", "...", "a/...",
    # devices
    "con", "CON", "Con.txt", "nul", "NUL.tar.gz", "aux", "prn", "clock$", "conin$", "CONOUT$", "com1", "COM9.x", "com0",
    "com\u00b9", "lpt1", "LPT\u00b3",
    "a/nul", "nul/a", "con .txt", "aux  .h",
    # too long
    "x" * 289, "\u00e9" * 145, "a/" + "x" * 289, "x" * 300, "x" * 4096, "/".join(["x" * 100] * 11), "a/" * 512 + "a",
]  # fmt: skip  # one family a line

GOOD = [
    "a", "A", "-", "_", "~", "-rf", ".hidden", "a.b", "a..b", "a b", "a, b", "E=8,N=7168,device_name=NVIDIA_H200.json",
    "k(1)[2]{3}'4'&#%+@!;$^`",
    "\u00e9", "\u540d\u524d", "\U0001f600", "con1", "console", "nul_", "xnul", "com", "com10", "lpt", "aux1.txt", "a/b",
    "a/b/c", "tmp.pid_1_ab/k.ttir",
    "QY2TMMBYGY2DMMRQGQ4DKNJXGM3TQOBZGA3TENZSHEYTCMBQGAYA/matmul.cubin", "__grp__matmul.json", "x" * 288,
    "\u00e9" * 144, "/".join(["x" * 100] * 10),
]  # fmt: skip  # one family a line


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_hostile_file_name_is_refused_alone_and_among_good_ones(name: str) -> None:
    for listed in ([name], ["a", name], [name, "z"]):
        with pytest.raises(Reject) as caught:
            names.check_file_names(listed)
        assert caught.value.replaceable
        assert len(str(caught.value)) < 300, "a message stays one line, whatever the name is"
        assert str(caught.value).isprintable(), "a message carries nothing that a terminal obeys"


def test_there_are_at_least_eighty_hostile_names_and_no_two_are_one() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE) >= 80


@pytest.mark.parametrize("name", GOOD, ids=ascii)
def test_a_good_file_name_is_accepted(name: str) -> None:
    names.check_file_names([name])


def test_long_names_of_real_kernels_are_accepted_and_stay_distinct() -> None:
    # TR-08
    start = "triton_poi_fused_" + "add_" * 46
    kernels = [start[:200] + "x" * 40, start[:200] + "y" * 51, "\u00e9" * 130]
    assert [len(name.encode()) for name in kernels] == [240, 251, 260]
    names.check_file_names(kernels)
    assert names.check(names.ARTIFACT, "artifact name", "a" * 300) == "a" * 300


@pytest.mark.parametrize(
    "twins",
    [
        ("a", "A"),
        ("k.cubin", "K.CUBIN"),
        ("\u00e9", "\u00c9"),
        ("stra\u00dfe", "STRASSE"),
        ("\u03c3", "\u03c2"),
        ("d/x", "D/y"),
        ("d/e/x", "d/E/y"),
        ("a", "a"),
    ],
    ids=ascii,
)
def test_names_that_are_one_on_a_case_blind_file_system_are_refused(twins: tuple[str, str]) -> None:
    for pair in (twins, twins[::-1]):
        with pytest.raises(Reject, match="case"):
            names.check_file_names(pair)


@pytest.mark.parametrize("pair", [("a", "a/b"), ("a/b", "a/b/c"), ("A", "a/b"), ("a/B", "a/b/c")])
def test_a_name_that_is_both_file_and_folder_is_refused(pair: tuple[str, str]) -> None:
    for listed in (pair, pair[::-1]):
        with pytest.raises(Reject):
            names.check_file_names(listed)


def test_twenty_thousand_files_are_accepted_and_one_more_is_refused() -> None:
    many = [f"{number // 100}/{number}" for number in range(names.MAX_FILES)]
    names.check_file_names(many)
    with pytest.raises(Reject, match="20000 files"):
        names.check_file_names([*many, "one-more"])


def test_a_hundred_thousand_names_are_refused_without_being_read_to_the_end() -> None:
    seen = 0

    def endless() -> object:
        nonlocal seen
        for seen in range(100_000):
            yield str(seen)

    with pytest.raises(Reject):
        names.check_file_names(endless())  # type: ignore[arg-type]  # a generator is an Iterable
    assert seen <= names.MAX_FILES


@given(st.lists(st.text(max_size=20), max_size=5))
def test_what_is_accepted_can_be_written_below_a_folder_on_any_file_system(listed: list[str]) -> None:
    try:
        names.check_file_names(listed)
    except Reject:
        return
    for name in listed:
        assert not name.startswith("/") and "\\" not in name and name.isprintable()
        assert unicodedata.normalize("NFC", name) == name
        assert all(part not in ("", ".", "..") and part == part.rstrip(". ") for part in name.split("/"))
    assert len({name.casefold() for name in listed}) == len(listed)


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (names.KIND, ["a", "flashinfer_autotune", "k9", "a" * 64],
            ["", "A", "9k", "_a", "a-b", "a b", "a/b", "a\n", "a" * 65, "\u00e9"]),
        (names.HASH, ["0" * 64, "abcdef0123456789" * 4],
            ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "0" * 64 + "\n", "\u0660" * 64]),
        (names.ARTIFACT, ["all", "dp0-pp0-tp0-ep0-rank0", "_", "-x", "a" * 512],
            ["", ".", "..", ".a", "a/b", "a b", "a\n", "a\0", "a" * 513]),
        (names.FACTOR, ["a", "gpu", "a.b_c", "a" * 64],
            ["", "A", "_a", ".a", "9", "a-b", "a b", "a" * 65, "a\n", "\u00e4"]),
        (names.NAMESPACE, ["default", "team-a", "0", "a.b", "a" * 64],
            ["", "A", "a/b", "a b", "a\n", "a\0", "a" * 65, "\u00e9"]),
    ],
)  # fmt: skip  # a table
def test_each_rule_takes_the_whole_of_a_name_or_refuses_it(
    rule: re.Pattern[str], good: list[str], bad: list[str]
) -> None:
    assert [names.check(rule, "name", text) for text in good] == good
    for text in bad:
        with pytest.raises(IdentityError, match=r"^name .* is not allowed"):
            names.check(rule, "name", text)


@pytest.mark.parametrize("value", [None, 1, b"a", ["a"], True])
def test_a_name_that_is_no_text_is_refused_not_crashed_on(value: object) -> None:
    with pytest.raises(IdentityError):
        names.check(names.KIND, "kind", value)  # type: ignore[arg-type]  # what a plugin may hand over


@pytest.mark.parametrize("namespace", [".", "..", "", "A", "a/b"])
def test_a_namespace_that_could_leave_its_folder_is_refused(namespace: str) -> None:
    with pytest.raises(IdentityError, match="namespace"):
        names.check_namespace(namespace)
    assert names.check_namespace("default") == "default"
