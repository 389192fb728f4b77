"""What crosses a hook: values that do not change, and plain data that survives JSON."""

import dataclasses
import inspect
import json
import typing

import pytest

import warmcore
from warmcore import (
    Context,
    Entry,
    Expect,
    Fence,
    Fingerprint,
    Held,
    NotApplicable,
    Place,
    Request,
    Usage,
    errors,
    streams,
)
from warmcore.errors import FutureVersion, Reject, WarmcoreError, reason_of

HASH = "0" * 64


@pytest.mark.parametrize(
    "value",
    [
        NotApplicable("switched off"),
        Held(),
        Usage(),
        Fingerprint("a", "b", "c"),
        Context(HASH),
        Place(),
        Request("k", HASH),
        Entry("k", "1", 2),
        warmcore.Origin("default", "k", "g"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_can_not_be_changed(value: object) -> None:
    name = next(iter(inspect.signature(type(value)).parameters))
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
        setattr(value, name, "another")


def test_a_fence_survives_json_and_holds_plain_text_only() -> None:
    fence = Fence(store="fleet", lock="v1/k/0", token="7")
    assert json.loads(json.dumps(fence)) == fence
    assert set(typing.get_type_hints(Fence).values()) == {str}


def test_any_and_absent_are_no_version_that_a_store_may_give() -> None:
    texts: list[object] = ["any", "absent", "", None]
    assert [expect for expect in Expect if isinstance(expect, str) or expect in texts] == []


def test_the_cores_sink_and_source_are_what_stores_are_promised() -> None:
    for promised, ours in ((warmcore.Sink, streams.SpillSink), (warmcore.Source, warmcore.BlobSource)):
        for name in (name for name in vars(promised) if not name.startswith("_")):
            assert callable(getattr(ours, name, None)) or name in ("size", "sha256")


def test_a_context_needs_only_a_config_hash_and_shares_no_mapping() -> None:
    one, other = Context(HASH), Context(HASH)
    assert one.factors == {} and one.warm_ups == {} and one.group is None
    assert one.factors is not other.factors and one.warm_ups is not other.warm_ups


def test_building_a_context_never_raises_and_checking_it_does() -> None:
    # P1: an engine builds it outside of any try
    context = Context("not a hash", {"Bad Name": object()}, Place(tp=-1))  # type: ignore[dict-item]  # the engine's mistake
    with pytest.raises(warmcore.IdentityError):
        context.check()


class TestErrors:
    def test_all_have_one_base(self) -> None:
        classes = [one for _, one in inspect.getmembers(errors, inspect.isclass)]
        assert len(classes) >= 9
        assert [one for one in classes if not issubclass(one, WarmcoreError)] == []
        assert not issubclass(WarmcoreError, (OSError, ValueError, RuntimeError))

    def test_a_bad_hash_is_a_value_error_to_those_who_know_no_warmcore(self) -> None:
        assert issubclass(warmcore.IdentityError, ValueError)

    def test_a_deadline_is_trouble_of_the_store_and_a_reject_is_not(self) -> None:
        assert issubclass(warmcore.DeadlineExceeded, warmcore.StoreError)
        assert not issubclass(Reject, warmcore.StoreError)

    def test_a_reject_may_be_replaced_unless_it_says_otherwise(self) -> None:
        assert Reject("damaged").replaceable and not Reject("another GPU", replaceable=False).replaceable
        assert str(Reject("damaged")) == "damaged" and Reject("damaged").version is None

    def test_the_future_is_never_replaced(self) -> None:
        error = FutureVersion(7, 1)
        assert isinstance(error, Reject) and not error.replaceable and "update warmcore" in str(error)

    def test_a_reason_is_one_line_of_bounded_length_whatever_was_raised(self) -> None:
        class Broken(Exception):
            def __str__(self) -> str:
                raise OSError

        said = [reason_of(error) for error in (Reject("a\nb"), Reject(""), OSError("x\ty"), ValueError(), Broken())]
        assert said == ["a b", "Reject", "OSError: x y", "ValueError", "Broken"]
        assert len(reason_of(OSError("long " * 1000))) < 400
