"""`warmcore verify`: every stored object, read and unsealed; what is wrong with each in one line."""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from tqdm import tqdm

from warmcore.cli.common import Command, Output, config_option, deadline_option, epilog
from warmcore.cli.examine import WRONG, State, examine
from warmcore.cli.stores import Stored, Stores, open_stores


@dataclass(frozen=True)
class Verdict:
    """What one object turned out to be."""

    stored: Stored
    state: State
    reason: str

    @property
    def line(self) -> str:
        return f"{self.stored.store.name} {self.stored.key}: {self.state}{': ' if self.reason else ''}{self.reason}"

    @property
    def row(self) -> dict[str, object]:
        stored = self.stored
        where = {"key": stored.key, "store": stored.store.name, "size": stored.size, "version": stored.version}
        return {**where, "state": self.state, "reason": self.reason}


@click.command(
    "verify",
    cls=Command,
    epilog=epilog(
        "warmcore verify",
        "warmcore verify triton_kernels --deadline 600",
        "warmcore verify --json > verified.json",
        problem="an object is damaged, or it or its store can't be read in time",
    ),
)
@click.argument("prefix", default="")
@config_option
@deadline_option(300.0)
def command(prefix: str, path: Path | None, deadline: float) -> Output:
    """Read every stored object, and say what is wrong with it.

    Reads all bytes of each entry whose key starts with PREFIX (its v1/ may be left out), in each store of the chain
    that can list, and checks every digest, the namespace, and that the identity gives the hash in its key. One line for
    each object that is not sound: damaged, foreign (no key of ours), timeout or error; or, which is no fault,
    expired, newer (a sealed form that only a later warmcore reads) or absent (removed while this ran). Changes nothing.
    """
    with open_stores(path) as stores:
        verdicts = verify_all(stores, stores.listing(prefix, deadline), deadline)
    if not stores.listable:
        stores.problem("nothing was verified: no store can list what it holds")
    return _output(stores, verdicts)


def verify_all(stores: Stores, listed: Sequence[Stored], seconds: float) -> list[Verdict]:
    """Examine each object, each store within `seconds`."""
    ends: dict[str, float] = {}
    verdicts = []
    for stored in tqdm(listed, unit=" objects", file=sys.stderr, disable=None, leave=False):
        left = ends.setdefault(stored.store.name, time.monotonic() + seconds) - time.monotonic()
        if left <= 0:
            verdicts.append(Verdict(stored, "timeout", "not read, its store's time was spent: raise --deadline"))
            continue
        found = examine(stores.chain, stored.store, stored.key, left)
        verdicts.append(Verdict(stored, found.state, found.reason))
    return verdicts


def _output(stores: Stores, verdicts: list[Verdict]) -> Output:
    counts: Counter[str] = Counter(verdict.state for verdict in verdicts)
    wrong = [verdict for verdict in verdicts if verdict.state != "sound"]
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    found = ", ".join(f"{count} {state}" for state, count in ranked)
    summary = f"{len(verdicts)} objects in {len(stores.listable)} stores{': ' if found else ''}{found}"
    bad = bool(stores.problems) or any(counts[state] for state in WRONG)
    data = {"counts": dict(counts), "objects": [verdict.row for verdict in wrong], "problems": stores.problems}
    return Output([*(verdict.line for verdict in wrong), summary], data, 1 if bad else 0)
