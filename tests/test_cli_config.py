"""`warmcore config`: what is in effect, from where, and never a secret."""

from functools import partial
from pathlib import Path

import pytest

from tests.cli_support import Cli, run_inside
from tests.support import Site

CANARY = "canary-hunter2"

VAULT = """
from pathlib import Path
from tests.support import MemoryStore
from warmcore import Duration, Secret, Size

class Vault(MemoryStore):
    def __init__(
        self,
        login: Secret | None = None,
        endpoints: list[str] = [],
        key_file: Path | None = None,
        api_key: str = "",
        max_tokens: int = 5,
        cap: Size = Size(3 << 20),
        pause: Duration = Duration(90),
    ) -> None:
        super().__init__()
"""
CONFIG = f"""
strict = false
chain = ["vault"]

[stores.vault]
plugin = "vault"
login = {{ env = "VAULT_LOGIN" }}
endpoints = ["https://me:{CANARY}@vault:2379"]
key_file = "/etc/vault.key"
api_key = "{CANARY}"
timeout = "5s"

[stores.fleet-spare]
plugin = "vault"
logn = "{CANARY}"

[stores.lost]
plugin = "nobody-has-it"
auth = "{CANARY}"
headers = {{ X-Token = "{CANARY}", Accept = "json" }}
private_key = {{ file = "/run/secrets/key", also = "{CANARY}" }}
place = "here"
"""


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    return partial(run_inside, capfd)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VAULT_LOGIN", CANARY)
    return Site(tmp_path / "site", monkeypatch)


def settings(cli: Cli, *args: str) -> dict[str, tuple[object, str]]:
    return {each["key"]: (each["value"], each["origin"]) for each in cli("config", "--json", *args).json["settings"]}


def test_without_a_file_it_shows_the_defaults_of_warmcore_and_of_the_plugin(cli: Cli, site: Site) -> None:
    found = settings(cli)
    assert found["stores.local.plugin"] == ("disk", "default")
    assert found["stores.local.durable"] == (True, "default")
    assert found["stores.local.shared"] == (False, "its plugin or inner store")
    assert found["policy.budget"] == (10.0, "default")
    assert found["disabled"] == (False, "default")
    out = cli("config").out
    assert out.startswith("no config file") and "30d" in out


def test_each_value_names_the_file_or_the_variable_that_it_came_from(
    cli: Cli, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("warmcore.toml").write_text(
        '[stores.team-disk]\nplugin = "disk"\npath = "/x"\ntimeout = "1s"\n[policy]\nkeep = "1d"\n'
    )
    monkeypatch.setenv("WARMCORE_POLICY__BUDGET", "5s")
    monkeypatch.setenv("WARMCORE_STORES__TEAM_DISK__TIMEOUT", "3s")
    found = settings(cli)
    assert found["stores.team-disk.path"] == ("/x", "warmcore.toml")
    assert found["stores.team-disk.timeout"] == (3.0, "WARMCORE_STORES__TEAM_DISK__TIMEOUT")
    assert found["policy.keep"] == (86400.0, "warmcore.toml")
    assert found["policy.budget"] == (5.0, "WARMCORE_POLICY__BUDGET")
    assert found["chain"] == (["team-disk"], "default")


def test_no_secret_is_shown_typed_or_not_in_text_or_json(cli: Cli, site: Site) -> None:
    site.install("vault", VAULT, stores={"vault": ":Vault"})
    Path("warmcore.toml").write_text(CONFIG)
    for ran in (cli("config"), cli("config", "--json"), cli("-v", "config")):
        assert ran.code == 0 and CANARY not in ran.out + ran.err
    found = {key: value for key, (value, _) in settings(cli).items()}
    assert found["stores.vault.login"] == "*** (env VAULT_LOGIN)"
    assert found["stores.vault.endpoints"] == ["https://***@vault:2379"]
    assert found["stores.vault.key_file"] == "/etc/vault.key"
    assert (
        found["stores.vault.api_key"] == found["stores.fleet-spare.logn"] == found["stores.lost.private_key"] == "***"
    )
    assert found["stores.vault.max_tokens"] == 5
    assert found["stores.lost.headers"] == {"X-Token": "***", "Accept": "json"}
    assert found["stores.lost.place"] == "here"
    assert "3 MiB" in cli("config").out and "90s" in cli("config").out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("chain = [", "not valid TOML"),
        ("cahin = []", "did you mean 'chain'?"),
        ('[stores.x]\nplugin = "dsk"', "no store plugin 'dsk' is installed"),
        ('[stores.x]\nplugin = "disk"\nptah = "/x"', "did you mean 'path'?"),
        ('[stores.x]\nplugin = "disk"\ntimeout = "soon"', "expected a duration"),
        (f'[stores.x]\nplugin = "vault"\nlogin = "{CANARY}"', "never the secret itself"),
    ],
)
def test_a_mistake_is_one_line_with_its_place_and_exit_code_2(cli: Cli, site: Site, text: str, said: str) -> None:
    site.install("vault", VAULT, stores={"vault": ":Vault"})
    Path("warmcore.toml").write_text(text)
    ran = cli("config")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err and CANARY not in ran.err


def test_a_plugin_that_cannot_be_used_is_a_problem_and_the_rest_is_shown(cli: Cli, site: Site) -> None:
    site.install("broken", "raise ImportError('libacme is missing')", caches={"broken": ":Broken"})
    Path("warmcore.toml").write_text(f'[caches.broken]\npassword = "{CANARY}"\nlevel = 3\n')
    ran = cli("config", "--json")
    assert ran.code == 1 and "libacme is missing" in ran.err and CANARY not in ran.out + ran.err
    assert {"key": "caches.broken.level", "value": 3, "origin": "warmcore.toml"} in ran.json["settings"]
    assert len(ran.json["problems"]) == 1


def test_it_shows_that_warmcore_is_off_and_reads_nothing_more(
    cli: Cli, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("warmcore.toml").write_text("not TOML at all")
    monkeypatch.setenv("WARMCORE_DISABLE", "1")
    ran = cli("config")
    assert ran.code == 0 and "warmcore is off (WARMCORE_DISABLE)" in ran.out
    assert settings(cli) == {"disabled": (True, "WARMCORE_DISABLE")}
    monkeypatch.setenv("WARMCORE_DISABLE", "maybe")
    assert cli("config").code == 2
