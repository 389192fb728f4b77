"""The child process of `list-plugins --load`: loads one plugin and answers with its hooks, or why it can't be used."""

import json
import os
import sys

from warmcore.assembly import SPECS
from warmcore.cli.added import import_command
from warmcore.cli.common import take_stdout
from warmcore.discovery import Found, load
from warmcore.errors import reason_of
from warmcore.plugins import check_plugin


def answer(found: Found) -> dict[str, object]:
    """Load a plugin and return the fields of `Tried`; whatever it raises is the answer."""
    try:
        if found.role == "command":
            import_command(found)
            return {"hooks": []}
        return {"hooks": sorted(check_plugin(load(found), SPECS[found.role]))}
    except Exception as error:  # noqa: BLE001  # a plugin may raise anything
        return {"problem": reason_of(error).removeprefix(f"{found}: ")}


def main() -> None:
    stdout = take_stdout()
    with stdout:
        json.dump(answer(Found(**json.loads(sys.argv[1]))), stdout)
    # Not through the exit handlers of what was imported: those are a plugin's too.
    os._exit(0)


if __name__ == "__main__":
    main()
