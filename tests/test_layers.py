"""Imports go down only, plugins use public names only, and importing warmcore starts nothing."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

import warmcore

ROOT = Path(__file__).parent.parent
CORE = ROOT / "warmcore"

ORDER = """
    __main__
    cli
    session
    start
    kind
    publish
    explain
    chain
    group
    assembly
    plugins
    config
    environment
    discovery
    report
    hookspecs
    warmups
    contracts
    notes
    streams
    artifact
    blob
    identity
    settings
    tables
    breaker
    threads
    names
    errors
""".split()
"""Top to bottom: a module imports those below it. `testing` stands beside them and nothing imports it."""

NEVER_IN_THE_CORE = {"etcd3", "grpc", "pyetcd", "torch", "triton", "flashinfer", "yaml", "zstandard"}
HEAVY = NEVER_IN_THE_CORE - {"zstandard"} | {"cuda", "cutlass", "numpy", "tilelang"}
BANNED_MODULES = {"cloudpickle", "dill", "marshal", "pickle", "shelve", "tarfile"}
BANNED_CALLS = {"eval", "exec", "extractall", "unpack_archive"}


def core_files() -> list[Path]:
    return sorted(CORE.rglob("*.py"))


def plugin_files() -> list[Path]:
    return sorted(path for path in ROOT.glob("plugins/*/warmcache_*/**/*.py"))


def named(paths: list[Path]) -> list[object]:
    return [pytest.param(path, id=str(path.relative_to(ROOT))) for path in paths]


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def module_of(path: Path) -> str:
    """Return the flat module a core file belongs to: `cli` for all of warmcore/cli/, "" for warmcore/__init__.py."""
    first = path.relative_to(CORE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imports(tree: ast.AST, *, inside_functions: bool = True) -> Iterator[str]:
    """Yield each imported module as `a.b`, and each name of a `from` import as `a.b.name`; type checking excepted."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif is_type_checking(node):
            assert isinstance(node, ast.If)
            yield from imports(ast.Module(node.orelse, []), inside_functions=inside_functions)
        elif inside_functions or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from imports(node, inside_functions=inside_functions)


def tops(names: Iterator[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("path", named(core_files()))
def test_a_core_module_imports_only_modules_below_it(path: Path) -> None:
    module = module_of(path)
    used = {name.split(".")[1] for name in imports(parse(path)) if name.startswith("warmcore.")}
    if module == "":
        assert used == set(), "warmcore/__init__.py imports its modules when they are touched"
        return
    assert module in (*ORDER, "testing"), f"give {module} its place in ORDER"
    below = set(ORDER if module == "testing" else ORDER[ORDER.index(module) + 1 :])
    # The package itself says its version; a package's own modules may use each other.
    assert used <= below | {module, "__version__"}


@pytest.mark.parametrize("path", named(core_files()))
def test_the_core_imports_no_plugin_and_no_heavy_library(path: Path) -> None:
    names = tops(imports(parse(path)))
    assert not names & NEVER_IN_THE_CORE
    assert not {name for name in names if name.startswith("warmcache")}


@pytest.mark.parametrize("path", named(core_files() + plugin_files()))
def test_nothing_unpickles_evaluates_unpacks_or_checks_by_assert(path: Path) -> None:
    tree = parse(path)
    assert not tops(imports(tree)) & BANNED_MODULES
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert not {func.id for func in called if isinstance(func, ast.Name)} & BANNED_CALLS
    attributes = {ast.unparse(func) for func in called if isinstance(func, ast.Attribute)}
    assert not {text for text in attributes if text.rpartition(".")[2] in BANNED_CALLS or text.startswith("yaml.")}


@pytest.mark.parametrize("path", named(plugin_files()))
def test_a_plugin_uses_only_public_names_of_the_core(path: Path) -> None:
    tree = parse(path)
    imported = {name for name in imports(tree) if name.partition(".")[0] == "warmcore"}
    reached = {f"warmcore.{node.attr}" for node in ast.walk(tree) if is_attribute_of_warmcore(node)}
    public = {"warmcore", "warmcore.testing", *(f"warmcore.{name}" for name in warmcore.__all__)}
    assert {
        name for name in imported | reached if name not in public and not name.startswith("warmcore.testing.")
    } == set()


def is_attribute_of_warmcore(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "warmcore"


@pytest.mark.parametrize("path", named(plugin_files()))
def test_a_plugin_imports_its_heavy_library_inside_functions(path: Path) -> None:
    assert not tops(imports(parse(path), inside_functions=False)) & HEAVY


def test_the_public_names_are_the_ones_that_type_checkers_see() -> None:
    guard = next(node for node in parse(CORE / "__init__.py").body if is_type_checking(node))
    seen = {
        (str(node.module).removeprefix("warmcore."), alias.name)
        for node in ast.walk(guard)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {(home, name) for home, names in warmcore._HOMES.items() for name in names}


def test_every_public_name_is_there() -> None:
    assert [name for name in warmcore.__all__ if not hasattr(warmcore, name)] == []
    with pytest.raises(AttributeError, match="nothing_such"):
        getattr(warmcore, "nothing_such")  # noqa: B009  # as a statement it would do nothing


def fresh(program: str) -> dict[str, object]:
    """Run a program in a fresh interpreter and return what it printed, as JSON."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_importing_warmcore_starts_nothing_and_loads_nothing_heavy() -> None:
    found = fresh(
        "import sys, threading, json, os\n"
        "events = []\n"
        "sys.addaudithook(lambda name, args: events.append((name, str(args[0]) if args else '')))\n"
        "before = set(sys.modules), len(os.listdir('/proc/self/fd'))\n"
        "import warmcore\n"
        "loud = ('socket.', 'subprocess.', '_thread.start', 'os.fork')\n"
        "started = [name for name, _ in events if name.startswith(loud)]\n"
        "print(json.dumps({'started': started, 'loaded': sorted(set(sys.modules) - before[0]),\n"
        "    'threads': threading.active_count(), 'open': len(os.listdir('/proc/self/fd')) - before[1]}))\n"
    )
    assert (found["started"], found["threads"], found["open"]) == ([], 1, 0)
    loaded = found["loaded"]
    assert isinstance(loaded, list) and "warmcore" in loaded
    forbidden = (
        HEAVY | NEVER_IN_THE_CORE | {"asyncio", "click", "importlib.metadata", "msgspec", "pluggy", "socket", "tqdm"}
    )
    assert not {name for name in loaded if name in forbidden or name.partition(".")[0] in forbidden}
    assert not {name for name in loaded if name.startswith(("warmcache", "warmcore."))}


def test_touching_every_public_name_loads_no_plugin_and_no_heavy_library() -> None:
    found = fresh(
        "import sys, json, threading, warmcore\n"
        "[getattr(warmcore, name) for name in warmcore.__all__]\n"
        "print(json.dumps({'loaded': sorted(sys.modules), 'threads': threading.active_count()}))\n"
    )
    loaded = found["loaded"]
    assert isinstance(loaded, list) and found["threads"] == 1
    forbidden = HEAVY | NEVER_IN_THE_CORE
    assert not {name for name in loaded if name.partition(".")[0] in forbidden or name.startswith("warmcache")}


def test_each_module_can_be_imported_first() -> None:
    modules = {f"warmcore.{name}" for name in map(module_of, core_files()) if name not in ("", "__main__", "testing")}
    program = (
        "import importlib, json, os, sys\n"
        "def imports(module):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        try: importlib.import_module(module)\n"
        "        except BaseException: os._exit(1)\n"
        "        os._exit(0)\n"
        "    return os.waitpid(child, 0)[1] == 0\n"
        f"print(json.dumps({{'broken': [module for module in {sorted(modules)} if not imports(module)]}}))\n"
    )
    assert fresh(program)["broken"] == []


def test_the_map_in_the_architecture_names_every_module_in_this_order() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text().split("```")[1]
    named_there = [line.split()[0].rstrip("/") for line in text.splitlines() if line and not line[0].isspace()]
    modules = {path.stem for path in CORE.iterdir()} - {"__init__", "__main__", "__pycache__", "py", "testing"}
    assert named_there == [module for module in ORDER if module in modules]
