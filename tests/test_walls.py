"""The walls between rooms: no file imports in a circle, and each contract fails when it is broken."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.paths import ROOT

SRC = ROOT / "src"


def modules(source: Path) -> dict[str, Path]:
    """Every module below a folder, by its dotted name."""
    found = {}
    for path in source.rglob("*.py"):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(path: Path, known: Mapping[str, Path]) -> set[str]:
    """Modules among `known` that a file imports, anywhere in it and for type checking too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inside & known.keys()
            if len(inside & known.keys()) < len(inside):
                found.add(node.module)
    return found & known.keys()


def circles(source: Path) -> list[list[str]]:
    """Groups of modules that import each other, directly or by way of others."""
    known = modules(source)
    graph = {name: imports_of(path, known) - {name} for name, path in known.items()}
    reach = {name: reachable(name, graph) for name in graph}
    groups = {tuple(sorted(other for other in reach[name] if name in reach[other])) for name in graph}
    return sorted(list(group) for group in groups if group)


def reachable(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


def test_no_file_imports_in_a_circle() -> None:
    assert circles(SRC) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        (package / f"{name}.py").write_text(f"def use():\n    from package.{other} import use\n    return use\n")
    (package / "d.py").write_text("from package import a\n")
    (package / "__init__.py").write_text("")
    assert circles(tmp_path) == [["package.a", "package.b", "package.c"]]


BROKEN = {
    "layers in one direction": ("problem/reference.py", "egg_graph.evaluator.gpu.ladder"),
    "the trust boundary": ("worker/jobs.py", "egg_graph.evaluator.problem.problem"),
    "the evaluator imports only schema": ("local.py", "egg_graph.tuning"),
}
"""A contract by its name: a file of the evaluator, and an import that breaks the contract there."""


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    environment = {"PYTHONPATH": str(folder / "src"), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [*command, "--no-cache"], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources and their contracts, to break."""
    folder = tmp_path_factory.mktemp("walls")
    shutil.copytree(SRC, folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copyfile(ROOT / "pyproject.toml", folder / "pyproject.toml")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("contract", BROKEN)
def test_a_contract_fails_when_it_is_broken(checkout: Path, contract: str) -> None:
    file, imported = BROKEN[contract]
    path = checkout / "src/egg_graph/evaluator" / file
    whole = path.read_text(encoding="utf-8")
    path.write_text(f"{whole}\n\nimport {imported}  # noqa\n", encoding="utf-8")
    try:
        done = lint(checkout)
    finally:
        path.write_text(whole, encoding="utf-8")
    broken = [line for line in done.stdout.splitlines() if "BROKEN" in line]
    assert done.returncode == 1, done.stdout + done.stderr
    assert contract in " ".join(done.stdout.split()), done.stdout
    assert broken


def test_the_contracts_hold(checkout: Path) -> None:
    done = lint(checkout)
    assert done.returncode == 0, done.stdout + done.stderr
