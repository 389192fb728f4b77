"""The `warmcore` command: one small module per command, imported when it is called; plugins add more."""

import importlib
import sys
from collections.abc import Sequence

import click

import warmcore
from warmcore.cli import added
from warmcore.cli.common import epilog, say
from warmcore.errors import WarmcoreError, reason_of

COMMANDS = {
    "config": "Show the effective config, and where each value came from.",
    "explain": "Say why a look-up missed: the nearest stored entries, and the factors that differ.",
    "gc": "Remove what no start can use: expired and damaged objects.",
    "inspect": "Show what one stored artifact says of itself.",
    "list-plugins": "List the installed plugins, without importing any.",
    "ls": "List what the stores hold.",
    "rm": "Remove one stored artifact.",
    "verify": "Read every stored object, and say what is wrong with it.",
}


class _Commands(click.Group):
    """Knows its commands by name alone, so that neither `--help` nor one command imports the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return [*COMMANDS, *(found.name for found in added.commands() if found.name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # likewise
        if cmd_name not in COMMANDS:
            return added.load_command(cmd_name)
        command = importlib.import_module(f"warmcore.cli.{cmd_name.replace('-', '_')}").command
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # likewise
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
        if others := [found for found in added.commands() if found.name not in COMMANDS]:
            with formatter.section("Commands of plugins"):
                formatter.write_dl([(found.name, f"from {found.distribution} {found.version}") for found in others])

    def invoke(self, ctx: click.Context) -> int:
        """Run the command. Ours end with `ctx.exit`; what a plugin's command returns is no exit code."""
        super().invoke(ctx)
        return 0


@click.command(
    cls=_Commands,
    epilog=epilog("warmcore list-plugins", "warmcore ls --help", problem="a problem was found"),
)
@click.option("-v", "--verbose", is_flag=True, help="Show the log on stderr.")
@click.version_option(warmcore.__version__)
def root(verbose: bool) -> None:
    """Look at what warmcore keeps: plugins, config, stores and the artifacts in them."""
    # The command is imported by now: what never logs is not made to wait for it.
    if verbose or "logging" in sys.modules:
        _log_to_stderr(verbose)


def _log_to_stderr(verbose: bool) -> None:
    import logging

    logging.basicConfig(level=logging.DEBUG if verbose else logging.CRITICAL)


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; a mistake is one line on stderr, never a traceback."""
    given = list(sys.argv[1:] if args is None else args)
    try:
        return int(root.main(given or ["--help"], "warmcore", standalone_mode=False))
    except click.UsageError as error:
        say(f"{error.format_message()} (see `{error.ctx.command_path if error.ctx else 'warmcore'} --help`)")
        return 2
    except click.ClickException as error:
        say(error.format_message())
        return error.exit_code
    except WarmcoreError as error:
        say(reason_of(error))
        return 2
    except click.Abort:
        return 130
    except Exception as error:  # a plugin's command, or a bug of ours
        import logging

        logging.getLogger("warmcore").debug("unexpected", exc_info=True)
        say(f"unexpected: {reason_of(error)} (`warmcore -v ...` shows where)")
        return 1
