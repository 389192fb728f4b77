"""`warmcore list-plugins`: what is installed, and with `--load` whether it can be used."""

from dataclasses import asdict

import click

from warmcore.cli.added import refuse_if_disabled
from warmcore.cli.common import Command, Output, epilog, table
from warmcore.discovery import GROUPS, Found, find_plugins

HEADS = ("name", "group", "distribution", "version", "entry point", "status", "hooks", "problem")


@click.command(
    "list-plugins",
    cls=Command,
    epilog=epilog(
        "warmcore list-plugins",
        "warmcore list-plugins --load",
        "warmcore list-plugins --load --json",
        problem="a plugin can't be used",
    ),
)
@click.option("--load", "loading", is_flag=True, help="Import each plugin, in a process of its own, for at most 5 s.")
def command(loading: bool) -> Output:
    """List the installed plugins, without importing any.

    Reads the metadata of installed distributions: name, entry-point group, distribution, version, entry point, and what
    metadata tells of problems (two plugins of one name, one made for another warmcore). With --load also the hooks that
    each plugin implements, and why it can't be used if it can't.
    """
    found = find_plugins()
    rows = _loaded(found) if loading else [_row(item) for item in found]
    lines = table(HEADS, [_cells(row) for row in rows]) or ["no plugin is installed: pip install warmcache-disk"]
    return Output(lines, {"plugins": rows}, 1 if any(row["problem"] for row in rows) else 0)


def _row(found: Found) -> dict[str, object]:
    plain = asdict(found)
    return {"name": plain.pop("name"), "group": GROUPS[found.role], **plain}


def _loaded(found: list[Found]) -> list[dict[str, object]]:
    refuse_if_disabled("no plugin is loaded")
    from warmcore.cli.loading import try_all

    return [
        {**_row(item), "status": "failed" if tried.problem else "ok", "hooks": tried.hooks, "problem": tried.problem}
        for item, tried in zip(found, try_all(found), strict=True)
    ]


def _cells(row: dict[str, object]) -> list[str]:
    hooks = row.get("hooks")
    shown = {**row, "entry point": row["target"], "hooks": ", ".join(hooks) if isinstance(hooks, list) else ""}
    return [str(shown.get(head) or "") for head in HEADS]
