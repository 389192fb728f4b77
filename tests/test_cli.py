"""The command line as a whole: its help, its one way to stdout, its exit codes, and a reference that stays in step."""

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import click
import pytest

from tests.cli_support import ROOT, Cli, run_inside, run_outside
from tests.support import Site
from warmcore.cli import COMMANDS, root

REFERENCE = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
CONTEXT = click.Context(root)

NOISY = """
import os, threading, time
from warmcore import Entry, hookimpl
print("noise at import")

def chatter():
    while True:
        print("noise of a thread left behind")
        time.sleep(0.001)

class Noisy:
    def __init__(self):
        print("noise of a constructor")
        threading.Thread(target=chatter, daemon=True).start()

    @hookimpl
    def store_get(self, key, sink, fresh):
        print("noise of a get", flush=True)

    @hookimpl
    def store_put(self, key, source, expect, fence):
        return False

    @hookimpl
    def store_list(self, prefix):
        os.system("echo noise of a child")
        os.write(1, b"noise of a library\\n")
        return [Entry(prefix + "v1/demo/" + "a" * 64 + "/all", "1", 7)]
"""


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    return partial(run_inside, capfd)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.chdir(tmp_path)
    return Site(tmp_path / "site", monkeypatch)


def command(name: str) -> click.Command:
    found = root.get_command(CONTEXT, name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_in_the_words_of_its_own_help(name: str) -> None:
    assert str(command(name).help).splitlines()[0] == COMMANDS[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_teaches_with_an_example_and_its_exit_codes(cli: Cli, name: str) -> None:
    ran = cli(name, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert f"Examples:\n    warmcore {name}" in ran.out
    assert re.search(r"Exit codes:\n    0  fine\n    1  .+\n    2  wrong use", ran.out)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_in_the_reference(name: str) -> None:
    section = re.search(rf"^## `warmcore {name}.*?(?=^## |\Z)", REFERENCE, re.MULTILINE | re.DOTALL)
    assert section, name
    options = [option for option in command(name).params if isinstance(option, click.Option)]
    assert [option.opts for option in options if not any(f"`{text}" in section[0] for text in option.opts)] == []
    arguments = [
        argument.human_readable_name for argument in command(name).params if isinstance(argument, click.Argument)
    ]
    assert [argument for argument in arguments if argument not in section[0]] == []
    assert "| 1 |" in section[0]


@pytest.mark.parametrize("param", root.get_params(CONTEXT), ids=lambda param: param.name)
def test_every_option_of_all_commands_is_in_the_reference(param: click.Parameter) -> None:
    assert all(f"`{text}`" in REFERENCE for text in param.opts)


def test_the_reference_knows_no_command_or_option_that_is_not_there() -> None:
    assert set(re.findall(r"^## `warmcore ([a-z-]+)", REFERENCE, re.MULTILINE)) == set(COMMANDS)
    there = {text for name in COMMANDS for param in command(name).params for text in param.opts}
    there |= {text for param in root.get_params(CONTEXT) for text in param.opts}
    assert set(re.findall(r"^\| `(--[a-z-]+)", REFERENCE, re.MULTILINE)) <= there


def test_without_arguments_it_shows_its_help(cli: Cli) -> None:
    ran = cli()
    assert ran.code == 0
    assert all(f"  {name}" in ran.out for name in COMMANDS)
    assert ran == cli("--help")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nothing-such"], "No such command 'nothing-such'"),
        (["ls", "--nothing-such"], "No such option"),
        (["inspect"], "Missing argument"),
        (["ls", "a", "b"], "Got unexpected extra argument"),
        (["ls", "--deadline", "soon"], "not a valid float"),
        (["verify", "--deadline", "0"], "not in the range"),
        (["ls", "--config", "no-such.toml"], "no-such.toml: no such file"),
        (["inspect", "abc", "--store", "nothing-such"], "no stored key starts so"),
        (["inspect", f"v1/demo/{'0' * 64}/all", "--store", "locl"], "did you mean 'local'?"),
        (["explain", "no-such.json"], "no-such.json: can't be read"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_exit_code_2(cli: Cli, site: Site, args: list[str], said: str) -> None:
    ran = cli(*args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("warmcore: ") and said in ran.err and ran.err.count("\n") == 1


@pytest.mark.parametrize("name", ["ls", "inspect", "verify", "explain"])
def test_a_command_that_looks_into_stores_refuses_while_switched_off(
    cli: Cli, site: Site, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("WARMCORE_DISABLE", "1")
    monkeypatch.setenv("WARMCORE_STORES__LOCAL__PLUGIN", "disk")
    monkeypatch.setenv("WARMCORE_STORES__LOCAL__PATH", "store")
    ran = cli(name, *(["abc"] if name in ("inspect", "explain") else []))
    assert (ran.code, ran.out) == (2, "")
    assert "WARMCORE_DISABLE is set" in ran.err and ran.err.count("\n") == 1
    assert os.listdir() == ["site"]


def test_what_plugins_print_never_reaches_stdout(site: Site) -> None:
    site.install("noisy", NOISY, stores={"noisy": ":Noisy"})
    env = {"WARMCORE_STORES": '{ noisy = { plugin = "noisy" } }'}
    for name in ("verify", "config"):
        ran = run_outside(name, "--json", path=site.folder, **env)
        assert isinstance(ran.json, dict) and "noise" not in ran.out
        assert "noise at import" in ran.err and "noise of a constructor" in ran.err
    ran = run_outside("ls", path=site.folder, **env)
    assert "noise of a child" in ran.err and "noise of a library" in ran.err and "noise" not in ran.out


@pytest.mark.parametrize("redirect", ["| true", "| head -c 1 >/dev/null", ">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_reader_that_left_is_no_error(site: Site, redirect: str) -> None:
    line = f"set -o pipefail; {sys.executable} -m warmcore list-plugins {redirect}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_full_disk_under_stdout_is_one_line_on_stderr() -> None:
    line = f"{sys.executable} -m warmcore list-plugins > /dev/full"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert (done.returncode, done.stderr) == (1, "warmcore: the output can't be written: No space left on device\n")


def test_the_log_is_quiet_unless_asked_for(site: Site) -> None:
    site.install(
        "loud",
        "import logging\nlogging.getLogger('loud').error('hear me')\nclass Loud: pass\n",
        stores={"loud": ":Loud"},
    )
    env = {"WARMCORE_STORES": '{ loud = { plugin = "loud" } }'}
    quiet, verbose = (run_outside(*flags, "config", path=site.folder, **env) for flags in ([], ["-v"]))
    assert "hear me" not in quiet.err and "hear me" in verbose.err
    assert quiet.code == verbose.code == 1 and quiet.out == verbose.out


def test_what_is_shown_can_do_a_terminal_no_harm(cli: Cli, site: Site) -> None:
    ran = cli("inspect", "\x1b[2J\nsecond line")
    assert ran.err.count("\n") == 1 and "\x1b" not in ran.err
