"""`warmcore explain`: why a look-up missed, told by the nearest stored entries and the factors that differ."""

import os
import time
from pathlib import Path

import click

from warmcore.cli.asked import Asked, by_key, by_report
from warmcore.cli.common import Command, Output, config_option, deadline_option, epilog
from warmcore.cli.explained import Explained
from warmcore.cli.stores import Stores, open_stores
from warmcore.explain import nearest


@click.command(
    "explain",
    cls=Command,
    epilog=epilog(
        "warmcore explain ~/.cache/warmcore/reports/001764511200000-1f2e3d4c5b6a.json",
        "warmcore explain v1/triton_kernels/2f0c...e1/all --most 3",
        "warmcore explain report.json --json | jq '.asked[].nearest[0].differs'",
        problem="a store can't be opened",
    ),
)
@click.argument("what", metavar="KEY|REPORT.json")
@click.option("--most", type=click.IntRange(1), default=1, show_default=True, help="How many nearest entries to show.")
@config_option
@deadline_option(10.0)
def command(what: str, most: int, path: Path | None, deadline: float) -> Output:
    """Say why a look-up missed: the nearest stored entries, and the factors that differ.

    Give the JSON report of a start, or a key (or the start of a stored one). For each kind: its look-ups and their
    outcomes, the factors that make up its identity, and the stored entries that differ from it in the fewest, with both
    values of every factor that differs: 1, 1.0, true and "1" are four values.
    """
    with open_stores(path) as stores:
        asked = by_report(Path(what)) if _is_file(what) else [by_key(stores, stores.find(what, deadline), deadline)]
        found = [_explain(stores, each, most, deadline) for each in asked]
    lines = [line for each in found for line in ("", *each.lines())][1:] or ["no kind took part in this start"]
    return Output(lines, {"asked": [each.plain() for each in found]}, 1 if stores.problems else 0)


def _is_file(what: str) -> bool:
    return what.endswith(".json") or os.path.isfile(what)


def _explain(stores: Stores, asked: Asked, most: int, seconds: float) -> Explained:
    if asked.identity is None:
        return Explained(asked)
    end = time.monotonic() + seconds
    near = nearest(stores.chain, stores.chain.stores, asked.kind, asked.identity, end, most=most)
    same = stores.listing(f"v1/{asked.kind}/{asked.identity.config_hash}/", seconds)
    return Explained(asked, near, sorted({each.key for each in same} - {asked.key}))
