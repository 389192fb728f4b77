"""What was used, what ranks compare, what a publish merges, and what people read."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

import warmcore
from warmcache_jit import TritonKernels, offline_driver

Replica = Callable[..., TritonKernels]


@pytest.fixture
def blocks(context: warmcore.Context, kernels: ModuleType) -> Callable[..., warmcore.Context]:
    """Make a context that warms these block sizes only."""

    def make(*sizes: int) -> warmcore.Context:
        def warm() -> None:
            with offline_driver("cuda:90"):
                kernels.warm(blocks=sizes)

        return replace(context, warm_ups={"triton_kernels": warm})

    return make


def entries(payload: warmcore.Payload) -> set[str]:
    return {name.split("/")[0] for name in payload}


def test_installed_six_launched_four_of_them_and_two_new(
    replica: Replica, blocks: Callable[..., warmcore.Context], payload: warmcore.Payload, tmp_path: Path
) -> None:
    this = blocks(64, 128, 32)
    cache = replica(tmp_path / "second", this)
    cache.install(this, payload)
    cache.warmup(this)
    usage = cache.usage(this)
    assert (len(usage.used), len(usage.unused), len(usage.missed)) == (4, 2, 2)
    assert {*usage.used, *usage.unused} == entries(payload)
    assert not {*usage.missed} & entries(payload)
    collected = cache.collect(this)
    assert collected is not None
    assert entries(collected) == entries(payload) | {*usage.missed}
    assert collected.origin is None
    cache.install(this, warmcore.Payload(collected, payload.origin))
    assert cache.usage(this) == usage


def test_all_used_is_unchanged_and_keeps_its_origin(
    replica: Replica, context: warmcore.Context, payload: warmcore.Payload, kernels: ModuleType, tmp_path: Path
) -> None:
    cache = replica(tmp_path / "second")
    cache.install(context, payload)
    cache.warmup(context)
    assert len(cache.usage(context).used) == kernels.COUNT
    collected = cache.collect(context)
    assert collected is not None
    assert (collected.digest, collected.origin) == (payload.digest, payload.origin)


def test_a_start_from_its_own_folder_counts_what_the_note_names(
    replica: Replica, blocks: Callable[..., warmcore.Context], payload: warmcore.Payload, tmp_path: Path
) -> None:
    this = blocks(64)
    replica(tmp_path / "second", this).install(this, payload)
    cache = replica(tmp_path / "second", this)
    cache.collect(this)
    cache.warmup(this)
    assert (len(cache.usage(this).used), len(cache.usage(this).unused)) == (2, 4)


def test_undone_is_not_installed(
    replica: Replica, context: warmcore.Context, payload: warmcore.Payload, kernels: ModuleType, tmp_path: Path
) -> None:
    cache = replica(tmp_path / "second")
    cache.install(context, payload)()
    cache.warmup(context)
    assert cache.usage(context) == warmcore.Usage(missed=cache.usage(context).missed)
    assert len(cache.usage(context).missed) == kernels.COUNT


def test_without_a_warm_up_usage_is_unknown(replica: Replica, context: warmcore.Context, tmp_path: Path) -> None:
    this = replace(context, warm_ups={})
    cache = replica(tmp_path, this)
    cache.warmup(this)
    assert cache.usage(this).unknown


def test_merge_takes_whole_entries_and_ours_wins(baker: TritonKernels, asked: warmcore.Request) -> None:
    def payload(**files: bytes) -> warmcore.Payload:
        named = {f"{name[0] * 52}/k.{name[2:]}": warmcore.Blob.of(data) for name, data in files.items()}
        return warmcore.Payload(named)

    stored = payload(A_cubin=b"theirs", A_ptx=b"theirs", B_cubin=b"theirs")
    ours = payload(A_cubin=b"ours", C_cubin=b"ours")
    merged = baker.merge(asked, stored, ours)
    assert {(name[0], name[53:], merged[name].read(9)) for name in merged} == {
        ("A", "k.cubin", b"ours"),
        ("B", "k.cubin", b"theirs"),
        ("C", "k.cubin", b"ours"),
    }


def test_fingerprints_differ_by_what_differs(
    baker: TritonKernels, asked: warmcore.Request, payload: warmcore.Payload
) -> None:
    whole = baker.fingerprint(asked, payload)
    first = min(entries(payload))
    fewer = baker.fingerprint(asked, warmcore.Payload({n: b for n, b in payload.items() if not n.startswith(first)}))
    stage = next(name for name in payload if name.endswith(".ptx"))
    other = baker.fingerprint(asked, warmcore.Payload({**payload, stage: warmcore.Blob.of(b"// another")}))
    assert fewer.environment == other.environment == whole.environment
    assert other.entries == whole.entries != fewer.entries
    assert len({whole.selections, fewer.selections, other.selections}) == 3


def test_describe_gives_a_row_per_kernel(baker: TritonKernels, payload: warmcore.Payload, kernels: ModuleType) -> None:
    rows = baker.describe(payload)
    assert sorted(row["kernel"] for row in rows) == ["row_sum"] * 3 + ["scale"] * 3
    assert {row["entry"] for row in rows} == entries(payload)
    assert {row["target"] for row in rows} == {"cuda:90:32"}
    assert sum(int(row["bytes"]) for row in rows) == payload.size
    assert all(int(row["num_warps"]) == 4 and int(row["shared"]) >= 0 for row in rows)
    assert len(rows) == kernels.COUNT


def test_a_publish_never_names_another_kind_or_a_bad_hash(asked: warmcore.Request) -> None:
    assert TritonKernels().resolve(asked) == f"v1/triton_kernels/{asked.config_hash}/all"
    with pytest.raises(ValueError, match="config hash"):
        TritonKernels().resolve(replace(asked, config_hash="../x"))
