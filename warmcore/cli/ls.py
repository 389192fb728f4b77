"""`warmcore ls`: what the stores hold, from their listings and the head of each object."""

import time
from collections.abc import Iterator
from pathlib import Path

import click

from warmcore.artifact import Header
from warmcore.cli.common import Command, Output, amount, config_option, deadline_option, epilog, table, when
from warmcore.cli.stores import Stored, Stores, open_stores
from warmcore.explain import read_head

HEADS = ("key", "store", "size", "created", "expires", "generation", "digest", "note")
SHORT = 12


@click.command(
    "ls",
    cls=Command,
    epilog=epilog(
        "warmcore ls",
        "warmcore ls triton_kernels",
        "warmcore ls --json | jq '.entries[].key'",
        problem="a store can't be opened or listed in time",
    ),
)
@click.argument("prefix", default="")
@config_option
@deadline_option(10.0)
def command(prefix: str, path: Path | None, deadline: float) -> Output:
    """List what the stores hold.

    Shows each entry whose key starts with PREFIX (its v1/ may be left out), in each store of the chain that can list:
    the sealed size and, from its head, when it was created and expires, its generation, and the digest of its files,
    which tells two artifacts under one key apart. Only heads are read; `warmcore verify` reads all.
    """
    with open_stores(path) as stores:
        rows = [_row(stored, header) for stored, header in _with_headers(stores, prefix, deadline)]
    names = ", ".join(store.name for store in stores.chain.stores) or "no store"
    nothing = (
        f"nothing is stored in {names}" if not prefix else f"nothing in {names} has a key that starts with {prefix!r}"
    )
    lines = table(HEADS, [_cells(row) for row in rows]) or [nothing]
    return Output(lines, {"entries": rows}, 1 if stores.problems else 0)


def _with_headers(stores: Stores, prefix: str, seconds: float) -> Iterator[tuple[Stored, Header | None]]:
    ends: dict[str, float] = {}
    unread: dict[str, int] = {}
    for stored in stores.listing(prefix, seconds):
        name = stored.store.name
        end = ends.setdefault(name, time.monotonic() + seconds)
        if time.monotonic() >= end:
            unread[name] = unread.get(name, 0) + 1
            yield stored, None
            continue
        head = read_head(stores.chain, stored.store, stores.chain.stored_key(stored.key), end)
        yield stored, head.header if head else None
    for name, count in unread.items():
        stores.problem(f"store {name!r}: out of time with {count} heads unread: raise --deadline")


def _row(stored: Stored, header: Header | None) -> dict[str, str | int | None]:
    return {
        "key": stored.key,
        "store": stored.store.name,
        "size": stored.size,
        "version": stored.version,
        "created": header.created if header else None,
        "expires": header.expires if header else None,
        "generation": header.generation if header else None,
        "digest": header.body_sha256 if header else None,
    }


def _cells(row: dict[str, str | int | None]) -> list[str]:
    shown = {name: "" if value is None else str(value) for name, value in row.items()}
    shown |= {name: shown[name][:SHORT] for name in ("generation", "digest")}
    shown |= {name: when(value) for name in ("created", "expires") if isinstance(value := row[name], int)}
    shown["size"] = amount(int(row["size"] or 0))
    shown["note"] = "" if row["digest"] else "no readable head"
    return [shown[head] for head in HEADS]
