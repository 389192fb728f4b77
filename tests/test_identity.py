"""Equal content gives one hash in every process; any other factor gives another, and the difference has a name."""

import dataclasses
import enum
import json
import math
import os
import subprocess
import sys
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmcore import Context, Difference, Identity, IdentityError, Place, Request, Secret, config_hash, diff
from warmcore.identity import Absent, canonical, make_key, parse_key

HASH = "0123456789abcdef" * 4

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=300)
)
factor_names = st.from_regex(r"[a-z][a-z0-9_.]{0,15}", fullmatch=True)
factor_sets = st.dictionaries(factor_names, scalars, min_size=1, max_size=8)
configs = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)

EXAMPLE: dict[str, Any] = {
    "gpu": "NVIDIA H200",
    "tp_size": 8,
    "alpha": 1.5,
    "tiny": 5e-324,
    "big": 1e300,
    "graphs": True,
    "none": None,
}


class Number(enum.IntEnum):
    ONE = 1


class Colour(enum.Enum):
    RED = "red"


class TestCanonicalForm:
    def test_is_json_with_sorted_keys_no_spaces_and_utf8(self) -> None:
        value = {"b": [1, 1.0, True, None], "a": "\u00e9\n", "c": {"y": -0.5, "x": ()}}
        assert canonical(value) == b'{"a":"\xc3\xa9\\n","b":[1,1.0,true,null],"c":{"x":[],"y":-0.5}}'

    @given(configs)
    def test_is_read_back_as_the_same_value_of_the_same_types(self, config: object) -> None:
        assert typed(json.loads(canonical(config))) == typed(config)

    @given(configs, configs)
    def test_is_equal_only_for_equal_content(self, left: object, right: object) -> None:
        assert (canonical(left) == canonical(right)) == (typed(left) == typed(right))

    def test_tells_1_from_one_point_nought_from_true_and_from_text(self) -> None:
        values = [1, 1.0, True, "1", "True", "true", None, "None", "null", 0, 0.0, False, "", [], {}, [1], [[1]]]
        assert len({canonical(value) for value in values}) == len(values)

    def test_does_not_see_the_order_of_a_mapping_but_that_of_a_list(self) -> None:
        # IN-03
        assert config_hash({"a": {"x": 1, "y": 2}, "b": 3}) == config_hash({"b": 3, "a": {"y": 2, "x": 1}})
        assert config_hash({"a": {"x": [1, 2]}}) != config_hash({"a": {"x": [2, 1]}})
        assert config_hash({"a": {"x": 1}}) != config_hash({"a": {"x": "1"}})

    def test_does_not_see_which_kind_of_mapping_or_sequence_it_was(self) -> None:
        plain = config_hash({"a": [1, {"b": 2}]})
        assert config_hash(OrderedDict(a=(1, MappingProxyType({"b": 2})))) == plain

    @pytest.mark.parametrize(
        "place", [lambda bad: bad, lambda bad: [1, bad], lambda bad: {"a": bad}], ids=["bare", "list", "table"]
    )
    @pytest.mark.parametrize(
        "bad",
        [
            math.nan, math.inf, -math.inf, 2**63, -(2**63) - 1, {1, 2}, frozenset(), b"bytes", bytearray(), object(),
            1j, range(3), Ellipsis,
            type("Scalar", (int,), {})(3), type("Text", (str,), {})("a"), Number.ONE, Colour.RED,
            "\ud800", {"\ud800": 1},
            {1: 2}, {None: 1}, {True: 1}, {b"a": 1}, dataclasses.make_dataclass("D", ["x"])(1), print, int,
            Secret(lambda: "s"),
        ],
        ids=lambda bad: type(bad).__name__,
    )  # fmt: skip  # a table
    def test_refuses_what_has_no_one_spelling(self, bad: object, place: Any) -> None:
        with pytest.raises(IdentityError):
            canonical(place(bad))

    def test_names_the_place_of_what_it_refuses(self) -> None:
        with pytest.raises(IdentityError, match=r"value\['quant'\]\[1\]\['scale'\] is nan"):
            config_hash({"quant": [1, {"scale": math.nan}]})

    def test_an_object_that_acts_like_a_number_is_refused_whatever_it_says_of_itself(self) -> None:
        class Like:
            """As numpy's scalars: it compares, hashes and converts like a number."""

            def __int__(self) -> int:
                return 1

            __index__ = __int__

            def __float__(self) -> float:
                return 1.0

            def __eq__(self, other: object) -> bool:
                return other == 1

            def __hash__(self) -> int:
                return hash(1)

        with pytest.raises(IdentityError):
            Identity({"n": Like()})  # type: ignore[dict-item]  # what an engine may hand over

    def test_a_structure_without_an_end_is_refused(self) -> None:
        endless: list[object] = []
        endless.append(endless)
        with pytest.raises(IdentityError):
            config_hash(endless)


class TestIdentity:
    def test_hash_is_the_same_in_every_process_and_hash_seed(self) -> None:
        program = (
            "import sys, json, warmcore\n"
            "factors = json.loads(sys.stdin.read())\n"
            "print(warmcore.Identity(dict(reversed(factors.items()))).config_hash)"
        )
        hashes = {Identity(EXAMPLE).config_hash}
        for seed in ("0", "1", "4294967295"):
            environment = {**os.environ, "PYTHONHASHSEED": seed, "HOME": f"/home/{seed}", "HOSTNAME": f"pod-{seed}"}
            done = subprocess.run(
                [sys.executable, "-c", program],
                input=json.dumps(EXAMPLE),
                capture_output=True,
                text=True,
                env=environment,
                timeout=60,
                check=True,
            )
            hashes.add(done.stdout.strip())
        assert hashes == {"0f1b6a3573bbb57183567cf0def330ddb771334589080417247df6f29e42a733"}, (
            "the canonical form changed: every stored artifact becomes a miss"
        )

    @given(factor_sets, st.randoms(use_true_random=False))
    def test_order_of_the_factors_does_not_matter(self, factors: dict[str, Any], random: Any) -> None:
        items = list(factors.items())
        random.shuffle(items)
        assert Identity(dict(items)) == Identity(factors)
        assert hash(Identity(dict(items))) == hash(Identity(factors))

    @given(factor_sets, factor_sets)
    def test_equality_equal_hashes_and_an_empty_difference_are_one_thing(
        self, left: dict[str, Any], right: dict[str, Any]
    ) -> None:
        # FI-20
        one, other = Identity(left), Identity(right)
        assert (one == other) == (one.config_hash == other.config_hash) == (not diff(one, other))
        assert one != other or hash(one) == hash(other)

    @given(factor_sets, st.data())
    def test_changing_any_one_factor_changes_the_hash_and_is_named(self, factors: dict[str, Any], data: Any) -> None:
        name = data.draw(st.sampled_from(sorted(factors)))
        value = data.draw(scalars.filter(lambda new: typed(new) != typed(factors[name])))
        before, after = Identity(factors), Identity({**factors, name: value})
        assert before.config_hash != after.config_hash
        assert diff(before, after) == [Difference(name, before.factors[name], after.factors[name])]

    @pytest.mark.parametrize("name", EXAMPLE)
    def test_leaving_out_any_one_factor_changes_the_hash_and_is_named(self, name: str) -> None:
        less = Identity({other: value for other, value in EXAMPLE.items() if other != name})
        assert less != Identity(EXAMPLE)
        assert diff(Identity(EXAMPLE), less) == [Difference(name, EXAMPLE[name], Absent.ABSENT)]

    @pytest.mark.parametrize(
        ("left", "right"), [(1, 1.0), (1, True), (0, False), (0.0, -0.0), ("1", 1), (None, "None")]
    )
    def test_values_that_python_takes_for_equal_differ_and_are_named(self, left: Any, right: Any) -> None:
        one, other = Identity({"x": left}), Identity({"x": right})
        assert (one == other) == (not diff(one, other))
        if type(left) is not type(right):
            assert one != other

    def test_none_is_a_value_and_not_the_same_as_absent(self) -> None:
        assert diff(Identity({"a": 1, "b": None}), Identity({"a": 1})) == [Difference("b", None, Absent.ABSENT)]
        assert repr(Absent.ABSENT) == "(absent)"

    def test_difference_lists_all_factors_by_name_with_both_values(self) -> None:
        left, right = Identity({"c": 1, "a": 2, "b": 3}), Identity({"c": 9, "a": 2, "d": 4})
        assert diff(left, right) == [("b", 3, Absent.ABSENT), ("c", 1, 9), ("d", Absent.ABSENT, 4)]

    def test_a_text_over_256_bytes_enters_as_its_digest(self) -> None:
        factors = Identity({"edge": "\u00e9" * 128, "over": "\u00e9" * 129}).factors
        assert factors["edge"] == "\u00e9" * 128
        assert str(factors["over"]).startswith("sha256:") and len(str(factors["over"])) == 71
        assert Identity({"a": "x" * 300 + "1"}) != Identity({"a": "x" * 300 + "2"})

    def test_twenty_thousand_identities_are_told_apart_in_one_dict(self) -> None:
        # FI-20: with a hash that collides this takes minutes
        many = {Identity({**EXAMPLE, "batch": number}): number for number in range(20_000)}
        assert len(many) == len({hash(one) for one in many}) == 20_000
        assert all(many[Identity({**EXAMPLE, "batch": number})] == number for number in range(0, 20_000, 7))

    def test_engine_commit_host_home_and_pid_are_no_part_of_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # IN-04, FI-15
        before = Identity(EXAMPLE)
        for name, value in {"HOME": "/x", "HOSTNAME": "pod-7", "VLLM_PORT": "5001", "XDG_CACHE_HOME": "/y"}.items():
            monkeypatch.setenv(name, value)
        assert Identity(EXAMPLE) == before
        assert Identity({**EXAMPLE, "gpu": "NVIDIA B200"}) != before
        assert dict(before.factors) == EXAMPLE, "the full list can be dumped and compared between two machines"

    def test_cannot_be_changed_afterwards(self) -> None:
        mine: dict[str, Any] = dict(EXAMPLE)
        one = Identity(mine)
        mine["gpu"] = "another"
        assert one == Identity(EXAMPLE)
        with pytest.raises(TypeError):
            one.factors["gpu"] = "another"  # type: ignore[index]  # that it is read-only is the test
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.config_hash = HASH  # type: ignore[misc]  # the same

    @pytest.mark.parametrize(
        "factors", [{}, {"": 1}, {"A": 1}, {"a b": 1}, {"a\n": 1}, {1: 1}, {None: 1, "a": 1}, {"a" * 65: 1}]
    )
    def test_factors_without_proper_names_are_refused(self, factors: Any) -> None:
        with pytest.raises(IdentityError):
            Identity(factors)

    @pytest.mark.parametrize("value", [{}, {"a": 1}, [], [1], (), (1, 2)])
    def test_a_factor_that_is_no_scalar_is_refused_with_the_remedy(self, value: Any) -> None:
        with pytest.raises(IdentityError, match=r"factor 'config'.*config_hash"):
            Identity({"config": value})


class TestPlace:
    def test_every_axis_of_the_group_is_in_the_name(self) -> None:
        # FI-11
        places = [Place(), Place(dp=1), Place(pp=1), Place(tp=1), Place(ep=1), Place(rank=1)]
        assert len({place.name for place in places}) == len(places)
        assert Place(1, 2, 3, 4, 5).name == "dp1-pp2-tp3-ep4-rank5"
        assert Place(local_rank=3).name == Place().name, "which GPU of its host a rank has is no part of its name"

    @pytest.mark.parametrize("axis", ["dp", "pp", "tp", "ep", "rank", "local_rank"])
    @pytest.mark.parametrize("value", [-1, True, 1.0, "1", None, 10**6])
    def test_an_axis_that_is_no_rank_is_named(self, axis: str, value: Any) -> None:
        with pytest.raises(IdentityError, match=rf"place {axis} is "):
            _ = Place(**{axis: value}).name


class TestRequest:
    def test_ranks_ask_for_an_artifact_each_and_groups_for_one(self) -> None:
        identity = Identity(EXAMPLE)
        # FI-11
        places = [Place(tp=0, pp=0, dp=0), Place(tp=0, pp=1, dp=0), Place(tp=0, pp=0, dp=1)]
        requests = [Request.of("flashinfer_autotune", identity, place) for place in places]
        assert len({one.key("rank") for one in requests}) == 3
        assert {one.key("group") for one in requests} == {f"v1/flashinfer_autotune/{identity.config_hash}/all"}
        assert requests[1].key("rank").endswith("/dp0-pp1-tp0-ep0-rank0")

    def test_a_peer_is_taken_at_its_word(self) -> None:
        request = Request("triton_kernels", HASH, Place(tp=1))
        assert request.identity is None
        assert request.key("rank") == f"v1/triton_kernels/{HASH}/dp0-pp0-tp1-ep0-rank0"

    @pytest.mark.parametrize("bad", ["", "abc", "../" * 22, HASH.upper(), HASH + "\n", HASH[:-1] + "/", None, 7])
    def test_a_peer_with_a_bad_hash_gets_a_value_error(self, bad: Any) -> None:
        with pytest.raises(ValueError, match="config hash"):
            Request("triton_kernels", bad).key("group")

    @pytest.mark.parametrize("bad", ["", "..", "a/b", "Kind", "k\0", None])
    def test_a_peer_with_a_bad_kind_gets_a_value_error(self, bad: Any) -> None:
        with pytest.raises(ValueError, match="kind"):
            Request(bad, HASH).key("group")

    def test_a_peer_at_an_odd_place_names_a_key_that_nobody_wrote(self) -> None:
        assert Request("k", HASH, Place(tp=999)).key("rank") == f"v1/k/{HASH}/dp0-pp0-tp999-ep0-rank0"

    def test_can_be_compared_and_counted(self) -> None:
        one, other = (Request.of("k", Identity(EXAMPLE), Place()) for _ in range(2))
        assert one == other and len({one, other}) == 1


class TestKey:
    def test_goes_round(self) -> None:
        text = make_key("k", HASH, "all")
        assert str(parse_key(text)) == text == f"v1/k/{HASH}/all"
        assert parse_key(text) == ("k", HASH, "all")

    @pytest.mark.parametrize(
        "text",
        [
            "", "/", "v1", "v1/", f"v1/k/{HASH}", f"v1/k/{HASH}/", f"v1/k/{HASH}/all/", f"v1/k/{HASH}/a/b",
            f"/v1/k/{HASH}/all", f"v2/k/{HASH}/all",
            f"V1/k/{HASH}/all", f"v1//{HASH}/all", f"v1/../{HASH}/all", f"v1/k/{HASH}/..", f"v1/k/{HASH}/.hidden",
            f"v1/k/{HASH}/a\0", f"v1/k/{HASH}/all\n",
            f"default/v1/k/{HASH}/all", f"v1\\k\\{HASH}\\all", "v1/k/" + "x" * 10_000,
        ],
        ids=lambda text: ascii(text).replace(HASH, "HASH")[:40],
    )  # fmt: skip  # a table
    def test_that_could_not_have_been_made_is_refused(self, text: str) -> None:
        with pytest.raises(IdentityError) as caught:
            parse_key(text)
        assert len(str(caught.value)) < 400


class TestEngineFactors:
    """What an engine adds is judged more strictly than what a library says of itself."""

    def check(self, name: str, value: Any) -> None:
        Context(HASH, {name: value}).check()

    @pytest.mark.parametrize(
        "value",
        ["/models/llama", "~/models", "./x", "../x", "file:///models/x", "C:\\models", "d:/models"],
    )
    def test_a_value_that_looks_like_a_path_is_refused(self, value: str) -> None:
        with pytest.raises(IdentityError, match=r"factor 'model' looks like a path"):
            self.check("model", value)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("hf_token", "canary-2718"),
            ("api_key", "canary-2718"),
            ("db_password", "canary-2718"),
            ("client_secret", "canary-2718"),
            ("aws_credentials", "canary-2718"),
            ("model", "hf_canary-2718"),
            ("model", "sk-canary-2718"),
            ("model", "ghp_canary-2718"),
            ("model", "nvapi-canary-2718"),
            ("model", "AKIAcanary-2718"),
            ("model", "-----BEGIN PRIVATE KEY-----canary-2718"),
            ("model", "eyJhbGciOi.canary-2718"),
        ],
    )
    def test_what_looks_like_a_secret_is_refused_and_not_repeated(self, name: str, value: str) -> None:
        # P12
        with pytest.raises(IdentityError, match=f"factor '{name}' looks like a secret") as caught:
            self.check(name, value)
        assert "canary-2718" not in str(caught.value)

    @pytest.mark.parametrize(
        "name", ["host", "hostname", "pid", "home", "cwd", "user", "pod", "pod_name", "node", "port"]
    )
    def test_a_location_is_refused_whatever_its_value(self, name: str) -> None:
        # IN-04, FI-15
        for value in ("a", 7, None):
            with pytest.raises(IdentityError, match=f"factor '{name}' is a location"):
                self.check(name, value)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("max_num_batched_tokens", 8192),
            ("model", "meta-llama/Llama-3"),
            ("model", "org/name-with/slashes"),
            ("dtype", "bfloat16"),
            ("tokenizer_mode", "auto"),
            ("version", "1.2.3+cu130"),
            ("rope", "{'factor': 8.0}"),
            ("token", 7),
            ("graphs", True),
            ("scale", 0.5),
            ("quantization", None),
            ("backend", "skip"),
        ],
    )
    def test_what_engines_really_add_is_accepted(self, name: str, value: Any) -> None:
        self.check(name, value)

    @pytest.mark.parametrize("value", [math.nan, object(), {1}, 2**63])
    def test_what_no_identity_takes_is_refused_here_already(self, value: Any) -> None:
        with pytest.raises(IdentityError):
            self.check("x", value)

    def test_a_bad_config_hash_place_or_factor_name_is_refused(self) -> None:
        for context in (Context("abc"), Context(HASH, place=Place(tp=-1)), Context(HASH, {"Bad Name": 1})):
            with pytest.raises(IdentityError):
                context.check()


def typed(value: object) -> object:
    """Spell a value so that == tells 1, 1.0 and True apart."""
    if isinstance(value, dict):
        return {name: typed(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [typed(item) for item in value]
    return f"{type(value).__name__} {value!r}"
