"""The sealed form: what was sealed comes back, and nothing else is ever accepted."""

import dataclasses
import hashlib
import itertools
import json
import random
import re
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmcore import Blob, BlobSource, Identity, IdentityError, Origin, Payload, Place, Reject, Request, artifact
from warmcore.errors import FutureVersion

MIB = 1 << 20
DAY = 86_400.0
IDENTITY = Identity(
    {"gpu": "NVIDIA H200", "library": "0.6.18", "tp_size": 8, "alpha": 1.5, "graphs": True, "note": None}
)
ASKED = Request.of("flashinfer_autotune", IDENTITY, Place(tp=3, rank=3))
KEY = ASKED.key("rank")
FILES = {"table.json": b'{"a": 1}', "d/k.cubin": bytes(range(256)) * 8, "empty": b""}


def payload_of(files: dict[str, bytes]) -> Payload:
    return Payload({name: Blob.of(data) for name, data in files.items()})


def seal(files: dict[str, bytes] = FILES, request: Request = ASKED, key: str = KEY, **options: Any) -> bytes:
    given = {"namespace": "default", "keep": DAY, "generation": "g" * 32, "cost": 221.5, **options}
    source = BlobSource(*artifact.seal(payload_of(files), request, key, **given)[1])
    return b"".join(iter(lambda: source.read(1000), b""))


def unseal(sealed: bytes, request: Request = ASKED, key: str = KEY, **options: Any) -> dict[str, bytes]:
    payload = artifact.unseal(Blob.of(sealed), request, key, **{"namespace": "default", **options})[1]
    return {name: view.read(1 << 30) for name, view in payload.items()}


def split(sealed: bytes) -> tuple[bytes, bytes, bytes]:
    """Return first line, header and body."""
    line, rest = sealed.split(b"\n", 1)
    size = int(line.split(b" ")[1])
    return line + b"\n", rest[:size], rest[size:]


def with_header(header: bytes, body: bytes = b"", version: int = 1) -> bytes:
    """Put a header under a first line with the right size and digest, as a hostile writer can."""
    promise = b"warmcore-sealed/%d %d" % (version, len(header))
    return promise + b" " + hashlib.sha256(promise + b"\n" + header).hexdigest().encode() + b"\n" + header + body


def spell(document: dict[str, Any]) -> bytes:
    """Spell a header as the format does."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def changed(other_body: bytes | None = None, **fields: Any) -> bytes:
    """Seal FILES, or another body, under a header with some fields changed, its digest right."""
    _, header, body = split(seal())
    return with_header(spell({**json.loads(header), **fields}), body if other_body is None else other_body)


def listed(*files: tuple[str, bytes]) -> list[dict[str, Any]]:
    return [{"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files]


def digest_of(files: list[dict[str, Any]]) -> str:
    lines = (f"{one['sha256']} {one['size']} {one['name']}\n" for one in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def replaced(old: bytes, new: bytes) -> bytes:
    """Seal FILES under a header with one piece of its text replaced, its digest right."""
    _, header, body = split(seal())
    assert header.count(old) == 1
    return with_header(header.replace(old, new), body)


def refusal(sealed: bytes, *arguments: Any, **options: Any) -> Reject:
    with pytest.raises(Reject) as caught:
        unseal(sealed, *arguments, **options)
    assert len(str(caught.value)) < 600, "a reason stays one line, whatever the bytes are"
    assert str(caught.value).isprintable()
    return caught.value


def refused(variants: Iterator[bytes]) -> int:
    """Count the variants; fail at the first that is accepted, or that ends in anything but Reject."""
    count = 0
    for count, sealed in enumerate(variants, 1):
        try:
            accepted = unseal(sealed)
        except FutureVersion as error:
            raise AssertionError(f"variant {count} would protect itself as a future version") from error
        except Reject as error:
            assert error.replaceable
            continue
        raise AssertionError(f"variant {count} was accepted as {sorted(accepted)}")
    return count


def four_kib() -> bytes:
    """Return a valid sealed artifact of exactly 4 KiB."""
    short = seal({**FILES, "pad": b""})
    sealed = seal({**FILES, "pad": b"p" * (4096 - len(short))})
    # The size of the padding takes digits of its own.
    sealed = seal({**FILES, "pad": b"p" * (4096 - len(short) - (len(sealed) - 4096))})
    assert len(sealed) == 4096
    return sealed


class TestRoundTrip:
    def test_gives_back_files_header_and_origin(self) -> None:
        header, payload = artifact.unseal(Blob.of(seal()), ASKED, KEY, namespace="default")
        assert {name: view.read(MIB) for name, view in payload.items()} == FILES
        assert payload.origin == Origin("default", KEY, "g" * 32) == artifact.origin(header)
        assert (header.namespace, header.key, header.generation, header.cost_seconds) == (
            "default",
            KEY,
            "g" * 32,
            221.5,
        )
        assert header.identity == dict(IDENTITY.factors) and header.signature is None
        assert header.expires - header.created == DAY and abs(header.created - time.time()) < 60

    @given(
        st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.binary(max_size=100), min_size=1, max_size=5)
    )
    def test_gives_back_any_files(self, files: dict[str, bytes]) -> None:
        assert unseal(seal(files)) == files

    @given(
        st.dictionaries(
            st.from_regex(r"[a-z][a-z0-9_.]{0,9}", fullmatch=True),
            st.none()
            | st.booleans()
            | st.integers(-(2**63), 2**63 - 1)
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(max_size=300),
            min_size=1,
            max_size=6,
        )
    )
    def test_gives_back_any_identity_with_its_types(self, factors: dict[str, Any]) -> None:
        asked = Request.of("k", Identity(factors), Place())
        key = asked.key("group")
        header = artifact.unseal(Blob.of(seal(FILES, asked, key)), asked, key, namespace="default")[0]
        assert Identity(header.identity) == asked.identity

    @pytest.mark.parametrize("cost", [None, 0.0, 3, 221.5, 1e-9, 1e300, float("nan"), float("inf")])
    def test_takes_any_cost_that_a_clock_may_give(self, cost: float | None) -> None:
        assert unseal(seal(cost=cost)) == FILES

    def test_a_request_of_a_peer_is_served_by_its_hash_alone(self) -> None:
        peer = Request(ASKED.kind, ASKED.config_hash, ASKED.place)
        assert unseal(seal(), peer) == FILES

    def test_head_can_be_read_by_people_and_says_where_the_body_starts(self) -> None:
        line, header, body = split(seal())
        assert re.fullmatch(rb"warmcore-sealed/1 %d [0-9a-f]{64}\n" % len(header), line)
        assert header.startswith(b'{\n "namespace": "default",\n "key": "v1/flashinfer_autotune/') and header.endswith(
            b"\n}\n"
        )
        assert body == FILES["d/k.cubin"] + FILES["empty"] + FILES["table.json"]
        assert artifact.parse_head(line + header).body_start == len(line + header) == artifact.head_size(line)

    def test_equal_content_at_one_moment_gives_equal_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(time, "time", lambda: 1_800_000_000.5)
        assert seal() == seal(dict(reversed(FILES.items())))

    def test_generations_are_never_the_same(self) -> None:
        assert len({artifact.new_generation() for _ in range(1000)}) == 1000


class TestSealing:
    def test_nothing_is_not_an_artifact(self) -> None:
        # IN-12
        with pytest.raises(Reject, match="empty"):
            seal({})

    def test_a_request_without_an_identity_is_not_published(self) -> None:
        with pytest.raises(IdentityError, match="identity"):
            seal(request=Request(ASKED.kind, ASKED.config_hash))

    @pytest.mark.parametrize("name", ["../x", "/x", "a\0", "CON", "a/../b", "a\n"])
    def test_a_name_that_no_reader_would_accept_is_refused_here_already(self, name: str) -> None:
        with pytest.raises(Reject, match="file name"):
            seal({name: b"x"})

    def test_a_bad_namespace_is_refused(self) -> None:
        with pytest.raises(IdentityError, match="namespace"):
            seal(namespace="..")

    def test_more_files_than_a_header_can_hold_are_refused(self) -> None:
        with pytest.raises(Reject, match="the cap is 4194304: too many files"):
            seal({f"{number:05}" + "x" * 200: b"" for number in range(15_000)})


class TestDamage:
    """P4: none of these is accepted, and none does more than raise Reject."""

    def test_every_single_bit_flip_of_four_kib_is_refused(self) -> None:
        sealed = four_kib()
        whole = int.from_bytes(sealed)
        assert refused((whole ^ (1 << bit)).to_bytes(4096) for bit in range(8 * 4096)) == 32_768

    def test_every_truncation_is_refused(self) -> None:
        sealed = four_kib()
        assert refused(sealed[:size] for size in range(4096)) == 4096

    def test_every_inserted_byte_is_refused(self) -> None:
        sealed, source = four_kib(), random.Random(2)
        added = (bytes([source.choice((0, 10, 32, 0x30, sealed[at - 1], source.randrange(256)))]) for at in range(4097))
        assert refused(sealed[:at] + byte + sealed[at:] for at, byte in enumerate(added)) == 4097

    def test_every_removed_byte_is_refused(self) -> None:
        sealed = four_kib()
        assert refused(sealed[:at] + sealed[at + 1 :] for at in range(4096)) == 4096

    def test_every_mix_of_two_valid_artifacts_is_refused(self) -> None:
        other_files = {**FILES, "table.json": b'{"a": 2}'}
        one, other = split(seal()), split(seal(other_files, generation="h" * 32))
        mixes = [mix for mix in itertools.product(*zip(one, other, strict=True)) if mix not in (one, other)]
        assert refused(map(b"".join, mixes)) == 6

    def test_every_cut_from_one_valid_artifact_into_another_of_the_same_length_is_refused(self) -> None:
        one, other = seal(), seal({**FILES, "table.json": b'{"a": 2}'}, generation="h" * 32)
        assert len(one) == len(other)
        first = next(at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
        last = len(one) - next(at for at, (a, b) in enumerate(zip(one[::-1], other[::-1], strict=True)) if a != b)
        assert refused(one[:at] + other[at:] for at in range(first + 1, last)) == last - first - 1

    def test_files_in_each_others_place_are_refused(self) -> None:
        line, header, _ = split(seal({"a": b"12", "b": b"34"}))
        assert "does not match its digest" in str(refusal(line + header + b"3412"))

    @pytest.mark.parametrize("behind", [b"\0", b"\n", b"x", b"x" * 100, seal()], ids=len)
    def test_bytes_behind_the_end_are_refused(self, behind: bytes) -> None:
        assert "bytes behind" in str(refusal(seal() + behind))

    def test_random_and_empty_and_foreign_bytes_are_refused(self) -> None:
        source = random.Random(1)
        foreign = [
            b"",
            b"\n",
            b"{",
            b"{}",
            b"\xff" * 200,
            b"[" * 5000,
            b"\x28\xb5\x2f\xfd\0",
            b"PK\x03\x04",
            b"\x7fELF",
            b"null",
            b"\0" * 4096,
        ]
        assert refused(iter([*foreign, *(source.randbytes(source.randrange(2000)) for _ in range(500))])) == 511

    def test_arbitrary_changes_are_refused(self) -> None:
        source, sealed = random.Random(3), seal()

        def variants() -> Iterator[bytes]:
            for _ in range(3000):
                data = bytearray(sealed)
                for _ in range(source.randrange(1, 6)):
                    at, to = sorted((source.randrange(len(data)), source.randrange(len(data))))
                    data[at:to] = source.choice((b"", data[at:to] * 2, data[at:to][::-1], source.randbytes(to - at)))
                yield from [bytes(data)] * (data != sealed)

        assert refused(variants()) > 2900


class TestFirstLine:
    def test_a_future_version_with_a_right_digest_is_protected(self) -> None:
        for version in (2, 3, 999_999):
            error = refusal(with_header(b'{"entirely": "new"}', b"body", version))
            assert isinstance(error, FutureVersion) and not error.replaceable
            assert f"version {version}, this warmcore reads 1: update warmcore" in str(error)

    def test_a_damaged_version_is_damage_and_not_the_future(self) -> None:
        for byte in b"0234567890 x\n":
            error = refusal(seal().replace(b"warmcore-sealed/1", b"warmcore-sealed/" + bytes([byte]), 1))
            assert not isinstance(error, FutureVersion) and error.replaceable

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (b"warmcore-sealed/1 ", b"warmcore-sealed/01 "),
            (b"warmcore-sealed/1 ", b"warmcore-sealed/+1 "),
            (b"warmcore-sealed/1 ", b"warmcore-sealed/1  "),
            (b"warmcore-sealed/1 ", b"Warmcore-sealed/1 "),
            (b"warmcore-sealed/1 ", b" warmcore-sealed/1 "),
            (b"warmcore-sealed/1 ", b"\xef\xbb\xbfwarmcore-sealed/1 "),
            (b"warmcore-sealed/1 ", b"warmcore-sealed/1 0"),
            (b"warmcore-sealed/1 ", b"warmcore-sealed/1 -"),
            (b"warmcore-sealed/1 ", b"warmcore-sealed/\xd9\xa1 "),
            (b"\n", b"\r\n"),
            (b"\n", b" \n"),
            (b"\n", b"\n\n"),
        ],
    )
    def test_another_spelling_of_it_is_refused(self, old: bytes, new: bytes) -> None:
        refusal(seal().replace(old, new, 1))

    def test_a_digest_in_capitals_is_refused(self) -> None:
        line, header, body = split(seal())
        *promise, digest = line.split(b" ")
        assert digest != digest.upper()
        refusal(b" ".join([*promise, digest.upper()]) + header + body)

    def test_a_header_over_the_cap_is_refused_before_it_is_read(self) -> None:
        read: list[int] = []

        def read_at(start: int, size: int) -> bytes:
            read.append(start + size)
            return (b"warmcore-sealed/1 99999999 " + b"0" * 64 + b"\n").ljust(start + size, b" ")[start : start + size]

        tracemalloc.start()
        try:
            with pytest.raises(Reject, match="header of 99999999 bytes, the cap is 4194304"):
                artifact.unseal(Blob(1 << 40, read_at), ASKED, KEY, namespace="default")
            assert max(read) <= artifact.MAX_HEADER + artifact.MAX_LINE
            assert tracemalloc.get_traced_memory()[1] < 32 * MIB
        finally:
            tracemalloc.stop()

    @pytest.mark.parametrize("size", [b"100000000", b"9" * 50, b"4194305"])
    def test_a_header_size_that_lies_is_refused(self, size: bytes) -> None:
        line, header, body = split(seal())
        refusal(line.replace(b" %d " % len(header), b" " + size + b" ") + header + body)

    def test_its_size_is_told_as_soon_as_it_is_complete(self) -> None:
        line, header, _ = split(seal())
        assert [artifact.head_size(line[:size]) for size in range(len(line))] == [None] * len(line)
        assert artifact.head_size(line) == artifact.head_size(line + header) == len(line + header)
        for other in (b"x\n", b"x" * 128, b"\n"):
            with pytest.raises(Reject, match="not a sealed artifact"):
                artifact.head_size(other)


OTHER_SPELLINGS = {
    b"221.5": [
        b"221.50", b"2215e-1", b"2.215e2", b'"221.5"', b"true", b"0x1", b"+1", b".5", b"01", b"1.", b"NaN", b"Infinity",
        b"1e999", b"-1e999", b"9" * 400, b"9" * 5000, b"1" + b"0" * 100_000,
    ],
    b'"tp_size": 8': [
        b'"tp_size": 8.0', b'"tp_size": 08', b'"tp_size": -0', b'"tp_size": 9223372036854775808', b'"tp_size": 1e999',
        b'"tp_size": NaN', b'"tp_size": ' + b"9" * 5000, b'"tp_size": [8]', b'"tp_size": {}', b'"TP_SIZE": 8', b'"": 8',
    ],
    b'"alpha": 1.5': [b'"alpha": 1.50', b'"alpha":1.5', b'"alpha" : 1.5'],
    b'"graphs": true': [
        b'"graphs": True', b'"graphs": 1', b'"graphs": "\\ud800"', b'"graphs": "\\udc00\\ud800"', b'"graphs": "\xff"',
        b'"graphs": "\0"', b'"graphs": "\n"', b'"graphs": "\\x41"',
    ],
    b"NVIDIA H200": [b"NVIDIA\\u0020H200", b"NVIDIA H200\\u0000", b"NVIDIA H200 "],
    b'"default"': [
        b'"d\\u0065fault"', b'"default\\n"', b"'default'", b'"default" // x', b'"default" /* x */', b'"default",',
        b' "default"', b'"default" ', b'\t"default"',
    ],
    b'{\n "namespace"': [b'{\n "namespac\\u0065"', b'[{\n "namespace"', b'\n{\n "namespace"', b'{"namespace"'],
    b'"size": 0': [
        b'"size": 0.0', b'"size": -0', b'"size": "0"', b'"size": null', b'"size": -1', b'"size": ' + b"9" * 19,
        b'"size": ' + b"9" * 30,
    ],
    b',\n "signature": null': [
        b"", b',\n "signature": null,', b',\n "signature": 1', b',\n "signature": "",\n "signature": null',
    ],
}  # fmt: skip  # a table


class TestHeader:
    """A hostile writer gets the digest right; the header is still exactly as the format says, or refused."""

    def test_the_tools_of_these_tests_make_valid_headers(self) -> None:
        assert unseal(changed()) == FILES
        assert unseal(replaced(b'"default"', b'"default"')) == FILES

    @pytest.mark.parametrize("field", ["namespace", "key", "created", "cost_seconds", "files", "signature", "identity"])
    def test_a_field_named_twice_is_refused(self, field: str) -> None:
        _, header, body = split(seal())
        value = json.dumps(json.loads(header)[field])
        assert "canonical" in str(refusal(with_header(f'{{\n "{field}": {value},'.encode() + header[1:], body)))

    def test_a_factor_named_twice_is_refused(self) -> None:
        assert "canonical" in str(refusal(replaced(b'"identity": {\n', b'"identity": {\n  "gpu": "NVIDIA H200",\n')))

    @pytest.mark.parametrize("extra", [{"comment": "x"}, {"": 0}, {"Key": "x"}, {"__class__": "x"}])
    def test_a_field_that_the_version_does_not_know_is_refused(self, extra: dict[str, Any]) -> None:
        assert "unknown field" in str(refusal(changed(**extra)))

    def test_a_file_with_a_field_more_or_less_is_refused(self) -> None:
        files = json.loads(split(seal())[1])["files"]
        refusal(changed(files=[{**one, "mode": 0o777} for one in files]))
        refusal(changed(files=[{"name": one["name"], "size": one["size"]} for one in files]))

    @pytest.mark.parametrize(
        "field", ["namespace", "key", "identity", "created", "expires", "generation", "body_sha256", "files"]
    )
    def test_a_field_that_is_missing_or_null_is_refused(self, field: str) -> None:
        refusal(changed(**{field: None}))
        _, header, body = split(seal())
        document = json.loads(header)
        del document[field]
        refusal(with_header(spell(document), body))

    @pytest.mark.parametrize(
        ("old", "new"),
        [(old, new) for old, news in OTHER_SPELLINGS.items() for new in news],
        ids=lambda text: ascii(text)[2:40],
    )
    def test_another_spelling_of_a_value_is_refused(self, old: bytes, new: bytes) -> None:
        assert refusal(replaced(old, new)).replaceable

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda text: b"\xef\xbb\xbf" + text,
            lambda text: text.decode().encode("utf-16"),
            lambda text: text.decode().encode("utf-16-le"),
            lambda text: text.decode().encode("utf-32"),
            lambda text: text + b"\0",
            lambda text: b"\0" + text,
            lambda text: text + b"\n",
            lambda text: text + text,
            lambda text: text + b"{}",
            lambda text: text[:-1],
            lambda text: text[:-3],
            lambda text: b"[" + text + b"]",
            lambda text: b"[" * 1_000_000,
            lambda text: b'{"identity":' * 300_000,
            lambda text: b'{"identity":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}",
            lambda text: b'{"x":' + b'{"x":' * 700_000,
            lambda text: b'"' + b"\\u0000" * 600_000 + b'"',
            lambda text: b"1" * 4_000_000,
            lambda text: b"-" * 1000,
            lambda text: b" " * 4_000_000,
            lambda text: b"null",
            lambda text: b"{}",
            lambda text: b"[]",
            lambda text: msgspec.json.encode(json.loads(text)),
            lambda text: json.dumps(json.loads(text), indent=1, sort_keys=True).encode() + b"\n",
            lambda text: json.dumps(json.loads(text), indent=2).encode() + b"\n",
            lambda text: text.replace(b"\n", b"\r\n"),
        ],
    )
    def test_attacks_on_the_parser_are_refused_quickly_and_in_little_memory(
        self, wrap: Callable[[bytes], bytes]
    ) -> None:
        _, header, body = split(seal())
        attack = with_header(wrap(header), body)
        tracemalloc.start()
        try:
            refusal(attack)
            assert tracemalloc.get_traced_memory()[1] < 64 * MIB
        finally:
            tracemalloc.stop()

    @pytest.mark.parametrize(
        "files",
        [
            [], [("b", b"1"), ("a", b"2")], [("a", b"1"), ("a", b"1")], [("a", b"1"), ("A", b"2")], [("..", b"1")],
            [("../x", b"1")], [("/x", b"1")],
            [("a\\b", b"1")], [("CON", b"1")], [("a", b"1"), ("a/b", b"2")], [("", b"1")], [("e\u0301", b"1")],
            [("x" * 300, b"1")],
        ],
        ids=lambda files: ascii(files)[:30],
    )  # fmt: skip  # a table
    def test_a_file_list_that_could_harm_a_folder_is_refused(self, files: list[tuple[str, bytes]]) -> None:
        body = b"".join(data for _, data in files)
        refusal(changed(body, files=listed(*files), body_sha256=digest_of(listed(*files))))

    def test_sizes_that_only_add_up_are_refused(self) -> None:
        # A size below nothing moves the next file back, into the header: here onto its last byte.
        files = listed(("a", b""), ("b", b"\n1234"))
        files[0]["size"] = -1
        refusal(changed(b"1234", files=files, body_sha256=digest_of(files)))

    @pytest.mark.parametrize("number", [0, 1, 2])
    def test_a_digest_of_one_file_that_is_wrong_is_refused_and_the_file_named(self, number: int) -> None:
        files = json.loads(split(seal())[1])["files"]
        files[number]["sha256"] = "0" * 64
        assert "body digest" in str(refusal(changed(files=files)))
        reason = refusal(changed(files=files, body_sha256=digest_of(files)))
        assert repr(files[number]["name"]) in str(reason)


class TestWhatWasAskedFor:
    def test_another_namespace_is_named(self) -> None:
        assert "namespace 'team-a', asked for 'default'" in str(refusal(seal(namespace="team-a")))

    def test_another_key_is_named_even_where_only_the_place_differs(self) -> None:
        other = dataclasses.replace(ASKED, place=Place(tp=4, rank=4))
        reason = str(refusal(seal(request=other, key=other.key("rank"))))
        assert KEY in reason and other.key("rank") in reason

    @pytest.mark.parametrize("factor", sorted(IDENTITY.factors))
    def test_each_factor_that_differs_is_named(self, factor: str) -> None:
        other = Identity({**IDENTITY.factors, factor: "another"})
        reason = str(refusal(seal(request=Request.of(ASKED.kind, other, ASKED.place))))
        assert re.search(rf"\b{factor}\b", reason)
        assert not [name for name in IDENTITY.factors if name != factor and re.search(rf"\b{name}\b", reason)]

    def test_a_factor_more_and_a_factor_less_are_named(self) -> None:
        for factors in ({**IDENTITY.factors, "extra_one": 1}, {"gpu": "NVIDIA H200"}):
            reason = str(refusal(seal(request=Request.of(ASKED.kind, Identity(factors), ASKED.place))))
            assert ("extra_one" in reason) == ("extra_one" in factors)

    def test_values_of_the_other_identity_are_not_repeated(self) -> None:
        # P12: a report never holds a factor's value
        other = Identity({**IDENTITY.factors, "library": "canary-2718"})
        assert "canary-2718" not in str(refusal(seal(request=Request.of(ASKED.kind, other, ASKED.place))))

    def test_a_peer_is_not_served_an_identity_of_another_hash(self) -> None:
        peer = Request(ASKED.kind, ASKED.config_hash, ASKED.place)
        other = Request.of(ASKED.kind, Identity({"gpu": "NVIDIA B200"}), ASKED.place)
        assert "config hash" in str(refusal(seal(request=other), peer))

    @pytest.mark.parametrize("identity", [{}, {"Bad Name": 1}, {"a": 2**70}])
    def test_an_identity_that_could_not_have_been_sealed_is_refused(self, identity: dict[str, Any]) -> None:
        refusal(changed(identity=identity))

    def test_what_has_expired_may_be_replaced(self) -> None:
        sealed = seal(keep=100)
        assert unseal(sealed, now=time.time() + 90) == FILES
        for late in (time.time() + 101, time.time() + 1e9):
            error = refusal(sealed, now=late)
            assert "expired" in str(error) and error.replaceable
        assert "expired" in str(refusal(seal(keep=-1)))
