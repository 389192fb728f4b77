"""`warmcore gc`: what no start can use, removed from every store that can list and delete."""

from pathlib import Path

import click

from warmcore.cli.common import Command, Output, config_option, deadline_option, epilog
from warmcore.cli.removing import Removal, removable, remove, summary
from warmcore.cli.stores import Stores, open_stores
from warmcore.cli.verify import Verdict, verify_all


@click.command(
    "gc",
    cls=Command,
    epilog=epilog(
        "warmcore gc --dry-run",
        "warmcore gc",
        "warmcore gc triton_kernels --json",
        problem="a store can't be opened, listed or read in time, or an object can't be removed",
    ),
)
@click.argument("prefix", default="")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@config_option
@deadline_option(300.0)
def command(prefix: str, dry_run: bool, path: Path | None, deadline: float) -> Output:
    """Remove what no start can use: expired and damaged objects.

    Reads each entry whose key starts with PREFIX (its v1/ may be left out) as `warmcore verify` does, and removes
    those that are expired or damaged, and files that a store lists without a key since none can be read. Exactly what
    was listed is removed: what is replaced meanwhile stays, as do keys of another warmcore and newer sealed forms.
    Stores whose mode is not read-write, or that can't list and delete, are passed over.
    """
    with open_stores(path) as stores:
        asked = removable(stores)
        if not asked:
            stores.problem("nothing was looked at: no store can list, delete and be written to")
        listed = [stored for stored in stores.listing(prefix, deadline) if stored.store in asked]
        removals = []
        for verdict in verify_all(stores, listed, deadline):
            if verdict.state in ("timeout", "error"):
                stores.problem(verdict.line)
            elif _useless(verdict):
                removals.append(_removal(stores, verdict, dry_run, deadline))
    return _output(stores, removals, dry_run)


def _useless(verdict: Verdict) -> bool:
    # A store lists what has no readable key as `?` and its own name for it; other foreign keys are somebody's.
    keyless = verdict.state == "foreign" and verdict.stored.key.rpartition("/")[2].startswith("?")
    return keyless or verdict.state in ("expired", "damaged")


def _removal(stores: Stores, verdict: Verdict, dry_run: bool, seconds: float) -> Removal:
    why = f"{verdict.state}: {verdict.reason}"
    return Removal(verdict.stored, why, "kept") if dry_run else remove(stores, verdict.stored, why, seconds)


def _output(stores: Stores, removals: list[Removal], dry_run: bool) -> Output:
    total = summary(removals, "kept", "would be removed") if dry_run else summary(removals, "removed", "removed")
    gone = sum(each.stored.size for each in removals if each.fate == "removed")
    data = {"removals": [each.row for each in removals], "removed_bytes": gone, "problems": stores.problems}
    return Output([*(each.line for each in removals), total], data, 1 if stores.problems else 0)
