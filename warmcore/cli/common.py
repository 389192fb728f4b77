"""What all commands share: one way out to stdout, messages on stderr, options, and words for sizes and times."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from warmcore.tables import render

F = TypeVar("F", bound=Callable[..., object])

config_option = click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    help="The config file.  [default: WARMCORE_CONFIG, else ./warmcore.toml]",
)


@dataclass(frozen=True)
class Output:
    """What a command found: as lines for people, as plain data for `--json`, and as its exit code."""

    lines: Sequence[str]
    data: object
    code: int = 0


class Command(click.Command):
    """A command of ours: takes `--json`, returns an Output, and only that reaches stdout.

    Whatever else is printed, by a plugin, its libraries or their children, goes to stderr.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(click.Option(["--json", "as_json"], is_flag=True, help="Print JSON, for scripts."))

    def invoke(self, ctx: click.Context) -> None:
        as_json = ctx.params.pop("as_json")
        with take_stdout() as stdout:
            output: Output = super().invoke(ctx)
            text = json.dumps(output.data, indent=1, default=str) if as_json else "\n".join(map(clean, output.lines))
            _write(stdout, f"{text}\n" if text else "")
        ctx.exit(output.code)


def take_stdout() -> TextIO:
    """Return the process's stdout, and send there no more of what is printed otherwise: that goes to stderr.

    For good: a thread that a hanging store left behind may print at any time.
    """
    # Descriptors that our caller closed lead nowhere, before a store's file gets their number.
    while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(spare)
    kept = os.dup(1)
    os.dup2(2, 1)
    return open(kept, "w", encoding=getattr(sys.stdout, "encoding", None), errors="backslashreplace")


def say(text: str) -> None:
    """Tell people something in one line on stderr."""
    click.echo(f"warmcore: {clean(' '.join(text.split()))}", err=True)


def clean(text: str) -> str:
    """Make harmless for a terminal what a stored object or a plugin may say of itself."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def epilog(*examples: str, problem: str) -> str:
    """Return the end of a help text: examples, and what the exit codes mean."""
    codes = ("0  fine", f"1  {problem}", "2  wrong use, or a mistake in the config")
    shown, meant = ("\n".join(f"  {line}" for line in lines) for lines in (examples, codes))
    return f"\b\nExamples:\n{shown}\n\n\b\nExit codes:\n{meant}"


def deadline_option(seconds: float) -> Callable[[F], F]:
    """Return the decorator that adds `--deadline SECONDS` to a command."""
    kind = click.FloatRange(min=0, max=1e6, min_open=True)
    text = "How long each store may take, in seconds."
    return click.option("--deadline", type=kind, metavar="SECONDS", default=seconds, show_default=True, help=text)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "") -> list[str]:
    """Lay out a text table; without rows there is none."""
    return [f"{indent}{line}" for line in render(heads, rows)] if rows else []


def when(seconds: int) -> str:
    """Show a moment in UTC."""
    with suppress(OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return f"{seconds} s"


def value(scalar: object) -> str:
    """Show a factor's value so that 1, 1.0, true and "1" differ."""
    return json.dumps(scalar, ensure_ascii=False)


def amount(size: int) -> str:
    """Show a number of bytes."""
    value, units = float(size), ["GiB", "MiB", "KiB", "B"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop()
    return f"{value:.4g} {units[-1]}"


def _write(stdout: TextIO, text: str) -> None:
    try:
        stdout.write(text)
        stdout.close()
    except BrokenPipeError:
        pass  # `| head` has seen enough
    except OSError as error:
        raise click.ClickException(f"the output can't be written: {error.strerror}") from None
