"""Documents that stay true: hooks, settings, commands stand in their reference, links lead somewhere, blocks parse."""

import re
import tomllib
from dataclasses import Field, fields
from pathlib import Path

import pytest

import warmcore
from warmcore import Context, Report
from warmcore.artifact import Header
from warmcore.config import Policy, StoreKeys, load_config
from warmcore.discovery import GROUPS
from warmcore.hookspecs import CacheSpec, ExtensionSpec, StoreSpec
from warmcore.settings import parameters

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
HOOKS = [name for spec in (StoreSpec, CacheSpec, ExtensionSpec) for name in vars(spec) if not name.startswith("_")]
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("plugins/*/README.md"),
    *ROOT.glob("examples/*/README.md"),
]


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_in_the_reference_with_its_arguments(hook: str) -> None:
    spec = next(spec for spec in (StoreSpec, CacheSpec, ExtensionSpec) if hasattr(spec, hook))
    arguments = ", ".join(list(vars(spec)[hook].__annotations__)[:-1])
    assert f"`{hook}({arguments})`" in (REFERENCE / "hooks.md").read_text()


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_named_in_a_test(hook: str) -> None:
    tests = [path for path in (*ROOT.glob("tests/*.py"), *ROOT.glob("plugins/*/tests/*.py")) if path != Path(__file__)]
    assert any(hook in path.read_text() for path in tests)


@pytest.mark.parametrize(
    "key", [*parameters(Policy), *parameters(StoreKeys), "caches", "chain", "extensions", "strict"]
)
def test_every_config_key_is_in_the_reference(key: str) -> None:
    assert f"| `{key}` |" in (REFERENCE / "config.md").read_text()


@pytest.mark.parametrize("field", Header.__struct_fields__)
def test_every_header_field_is_in_the_reference(field: str) -> None:
    assert f"| `{field}` |" in (REFERENCE / "sealed-artifact.md").read_text()


@pytest.mark.parametrize("group", GROUPS.values())
def test_every_entry_point_group_is_in_the_reference(group: str) -> None:
    assert f"`{group}`" in (REFERENCE / "hooks.md").read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", document.read_text())
    assert [target for target in targets if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_toml_blocks_are_valid_configs(document: Path) -> None:
    for block in re.findall(r"```toml\n(.*?)```", document.read_text(), re.DOTALL):
        table = tomllib.loads(block)
        if "project" not in table:
            table.setdefault("chain", [])
            load_config({**table, "stores": {"any": {"plugin": "disk"}, **table.get("stores", {})}}, environ={})


def test_the_changelog_names_this_version() -> None:
    assert f"## {warmcore.__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_every_plugin_stands_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [path.name for path in (ROOT / "plugins").iterdir() if f"plugins/{path.name}/README.md" not in readme] == []


@pytest.mark.parametrize("field", [*fields(Context), *fields(Report)], ids=lambda field: field.name)
def test_every_field_that_an_engine_sees_is_in_the_reference(field: Field[object]) -> None:
    assert f"`{field.name}`" in (REFERENCE / "engine.md").read_text()
