"""`warmcore config`: the values in effect and their origins."""

import json
from pathlib import Path

import click

from warmcore.assembly import assemble
from warmcore.cli.common import Command, Output, amount, config_option, epilog, say, table
from warmcore.cli.effective import Setting, settings
from warmcore.cli.masking import MASK
from warmcore.config import Config, load_config
from warmcore.settings import Duration, Size


@click.command(
    "config",
    cls=Command,
    epilog=epilog(
        "warmcore config",
        "warmcore config --config /etc/warmcore.toml",
        "WARMCORE_POLICY__BUDGET=5s warmcore config --json",
        problem="a plugin that the config names can't be used",
    ),
)
@config_option
def command(path: Path | None) -> Output:
    """Show the effective config, and where each value came from.

    The origin of a value is a file, an environment variable, or a default: warmcore's or the plugin's own. Loads the
    plugins that the config names, so that a mistake in their keys is found too; touches no store. A secret is shown as
    *** and the file or variable that it is read from. WARMCORE_DISABLE is shown too.
    """
    config = load_config(path)
    made = assemble(config)
    for problem in made.problems:
        say(problem)
    found = list(settings(config, made))
    data = {"file": config.path, "settings": [vars(each) for each in found], "problems": made.problems}
    return Output(
        [_head(config), *table(("key", "value", "origin"), list(map(_row, found)))], data, 1 if made.problems else 0
    )


def _head(config: Config) -> str:
    if config.disabled:
        return "warmcore is off (WARMCORE_DISABLE): no read, no write, no folder, no plugin loaded; no config was read"
    return (
        f"file: {config.path}"
        if config.path
        else "no config file: WARMCORE_CONFIG is not set, ./warmcore.toml is not there"
    )


def _row(setting: Setting) -> tuple[str, str, str]:
    return setting.key, _text(setting.value), setting.origin


def _text(value: object) -> str:
    if value is None:
        return "(its plugin decides)"
    if isinstance(value, str) and value.startswith(MASK):
        return value
    if isinstance(value, Duration):
        return _duration(value)
    return amount(value) if isinstance(value, Size) else json.dumps(value, default=str, ensure_ascii=False)


def _duration(seconds: float) -> str:
    """Show it as config would have it, in the largest unit that leaves no rest."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
