"""Promises about the code itself: who may import whom, and what the tree may not contain."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "sexton"
# Each layer may use itself and what stands before it.
LAYERS = ["errors", "domain", "sql", "settings", "store", "cluster", "targets", "flow"]
ALSO = {"errors": ["domain"]}  # for lengths of time
PURE = {"asyncio", "asyncpg", "random", "time", "os", "threading", "socket", "logging"}


def modules(folder: str) -> list[Path]:
    path = SOURCE / folder
    return sorted(path.rglob("*.py")) if path.is_dir() else [SOURCE / f"{folder}.py"]


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_one_way(layer: str) -> None:
    allowed = [*LAYERS[: LAYERS.index(layer) + 1], "__version__", *ALSO.get(layer, [])]
    for path in modules(layer):
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "sexton":
                assert parts[1] in allowed, f"{path.name} imports {name}"


def test_the_domain_is_pure() -> None:
    for path in modules("domain"):
        used = {name.split(".")[0] for name in imports(path)}
        assert not used & PURE, f"{path.name} imports {used & PURE}"
        tree = ast.parse(path.read_text())
        assert not any(
            isinstance(node, ast.AsyncFunctionDef | ast.Await) for node in ast.walk(tree)
        )


def test_nothing_unpickles_or_loads_yaml() -> None:
    for path in SOURCE.rglob("*.py"):
        used = {name.split(".")[0] for name in imports(path)}
        assert not used & {"pickle", "marshal", "shelve", "yaml", "dill"}, path


def test_every_module_says_what_it_is_for() -> None:
    for path in SOURCE.rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"
