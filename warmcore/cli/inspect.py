"""`warmcore inspect`: one stored artifact, as its header and its kind's plugin describe it."""

from collections.abc import Sequence
from pathlib import Path

import click

from warmcore.assembly import assemble
from warmcore.blob import Payload
from warmcore.cli.common import Command, Output, config_option, deadline_option, epilog, say
from warmcore.cli.examine import WRONG, Examined, examine
from warmcore.cli.inspected import Inspected
from warmcore.cli.stores import Stores, open_stores
from warmcore.config import Config
from warmcore.discovery import LOAD_SECONDS
from warmcore.errors import ConfigError, WarmcoreError, reason_of
from warmcore.identity import parse_key
from warmcore.threads import run_within


@click.command(
    "inspect",
    cls=Command,
    epilog=epilog(
        "warmcore inspect v1/triton_kernels/2f0c...e1/all",
        "warmcore inspect 2f0c --store fleet",
        "warmcore inspect 2f0c --json | jq .header.identity",
        problem="it is stored nowhere, or damaged",
    ),
)
@click.argument("key")
@click.option("--store", "name", metavar="NAME", help="The store to read it from.  [default: the nearest that has it]")
@config_option
@deadline_option(60.0)
def command(key: str, name: str | None, path: Path | None, deadline: float) -> Output:
    """Show what one stored artifact says of itself.

    KEY is a whole key, or the start of one, or of its config hash, if only one stored key starts so. Shows whether
    every digest is right; the header: the factors of the identity, files, sizes, times, generation, cost and digest;
    and what the plugin of its kind tells of its content, if that is installed.
    """
    with open_stores(path) as stores:
        key = stores.find(key, deadline)
        name, found = _nearest(stores, key, name, deadline)
        rows = _described(stores.config, key, found.payload) if found.payload else []
    if found.state == "absent":
        say(f"key {key} is in none of the stores asked (see `warmcore ls`)")
    inspected = Inspected(key, name, found, rows)
    lines = [] if found.state == "absent" else inspected.lines()
    return Output(lines, inspected.plain(), 1 if found.state in (*WRONG, "absent") else 0)


def _nearest(stores: Stores, key: str, name: str | None, seconds: float) -> tuple[str, Examined]:
    for store in stores.named(name):
        found = examine(stores.chain, store, key, seconds)
        if found.state != "absent":
            return store.name, found
    return "", Examined("absent")


def _described(config: Config, key: str, payload: Payload) -> Sequence[dict[str, str]]:
    """Ask the plugin of a key's kind; its failure is told on stderr."""
    kind = parse_key(key).kind
    try:
        made = assemble(Config(caches={kind: config.caches.get(kind, {})}))
        for problem in made.problems:
            say(problem)
        return run_within(
            LOAD_SECONDS, lambda: [_texts(row) for cache in made.caches for row in cache.describe(payload)]
        )
    except ConfigError as error:
        say(f"what is in it can't be told: {error}")
    except (WarmcoreError, AttributeError) as error:
        say(f"cache {kind!r} can't tell what is in it: {reason_of(error)}")
    return []


def _texts(row: dict[str, str]) -> dict[str, str]:
    return {str(name): str(each) for name, each in row.items()}
