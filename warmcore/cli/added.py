"""Commands that plugins add by the entry-point group `warmcore.commands`: named from metadata, loaded when called."""

import click

from warmcore.discovery import Found, find_plugins, load_as
from warmcore.errors import ConfigError


def commands() -> list[Found]:
    """Return the added commands as metadata has them, one of each name."""
    return list({found.name: found for found in find_plugins("command")}.values())


def load_command(name: str) -> click.Command | None:
    """Return an added command, None if no plugin has it; PluginError if it can't be used."""
    found = next((found for found in commands() if found.name == name), None)
    if found is None:
        return None
    refuse_if_disabled("no plugin is loaded")
    return import_command(found)


def import_command(found: Found) -> click.Command:
    """Import an added command within 5 s; PluginError with the cause."""
    return load_as(found, click.Command, "a click command")


def refuse_if_disabled(what: str) -> None:
    """Raise ConfigError while WARMCORE_DISABLE is set."""
    from warmcore.config import is_disabled

    if is_disabled():
        raise ConfigError(f"WARMCORE_DISABLE is set: {what}; unset it to use this command")
