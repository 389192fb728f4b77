"""`warmcore rm`: one artifact, removed from the stores that hold it."""

from pathlib import Path

import click

from warmcore.cli.common import Command, Output, amount, config_option, deadline_option, epilog, say
from warmcore.cli.removing import removable, remove
from warmcore.cli.stores import Stored, Stores, open_stores


@click.command(
    "rm",
    cls=Command,
    epilog=epilog(
        "warmcore rm v1/triton_kernels/2f0c...e1/all",
        "warmcore rm 2f0c --store fleet --yes",
        problem="it is stored nowhere, was not confirmed, changed meanwhile, or can't be removed",
    ),
)
@click.argument("key")
@click.option("--store", "name", metavar="NAME", help="The store to remove it from.  [default: all that hold it]")
@click.option("--yes", is_flag=True, help="Do not ask.")
@config_option
@deadline_option(10.0)
def command(key: str, name: str | None, yes: bool, path: Path | None, deadline: float) -> Output:
    """Remove one stored artifact.

    KEY is a whole key, or the start of one, or of its config hash, if only one stored key starts so. Asks first, unless
    --yes. Exactly what was listed is removed: what is replaced meanwhile stays. Stores whose mode is not read-write,
    or that can't list and delete, are passed over.
    """
    with open_stores(path) as stores:
        asked = removable(stores, name)
        key = stores.find(key, deadline)
        found = [each for each in stores.listing(key, deadline) if each.key == key and each.store in asked]
        if not found:
            say(f"key {key} is in none of the stores asked (see `warmcore ls`)")
        elif not yes and not _confirmed(found):
            say("nothing was removed")
            found = []
        return _output(stores, found, deadline)


def _confirmed(found: list[Stored]) -> bool:
    for stored in found:
        say(f"{stored.store.name} {stored.key} ({amount(stored.size)})")
    try:
        return click.confirm("Remove it?", err=True)
    except click.Abort:  # no answer, as in a script without a terminal
        say("not confirmed: pass --yes to remove without a question")
        return False


def _output(stores: Stores, found: list[Stored], seconds: float) -> Output:
    removals = [remove(stores, stored, "", seconds) for stored in found]
    fine = bool(removals) and not stores.problems and all(removal.fate == "removed" for removal in removals)
    data = {"removals": [removal.row for removal in removals], "problems": stores.problems}
    return Output([removal.line for removal in removals], data, 0 if fine else 1)
