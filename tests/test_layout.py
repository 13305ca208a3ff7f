"""The tests' own order: one corpus, each expectation told once, and no change of Python's search path."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from egg_graph.bench.trust.corpus import candidate_of
from egg_graph.bench.trust.headers import read_entries
from egg_graph.schema.evaluation import FindingKind, Status
from tests.paths import CORPUS, ROOT

FOLDERS = ("tricks", "bugs", "right", "faults")
MODULES = sorted(path for path in (ROOT / "tests").rglob("*.py") if CORPUS not in path.parents)
FOREIGN = ROOT / "tests" / "lab" / "kernelbench_process.py"
"""A program that imports a checkout of KernelBench, wherever its user has it."""
SEARCH_PATH = "sys.path"
VERDICTS = {*get_args(Status), *get_args(FindingKind)}


def parsed(text: str | Path) -> ast.Module:
    return ast.parse(text.read_text(encoding="utf-8") if isinstance(text, Path) else text)


def strings(node: ast.AST) -> set[str]:
    """All string constants below a node."""
    return {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def rows(tree: ast.Module) -> Iterator[ast.AST]:
    """What a table holds: tuples, lists, sets, and the entries of dictionaries."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple):
            yield node
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is not None:
                    yield ast.Tuple([key, value], ast.Load())


def told_twice(tree: ast.Module) -> list[str]:
    """Rows that give a corpus file together with a status or a kind of finding, which its header already tells."""
    files = {f"{path.parent.name}/{path.name}" for path in CORPUS.rglob("*.py")}
    if "read_entries" in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}:  # entries by stem
        files |= {path.stem for path in CORPUS.rglob("*.py")}
    return [ast.unparse(row) for row in rows(tree) if strings(row) & files - VERDICTS and strings(row) & VERDICTS]


def changes_of_the_search_path(tree: ast.Module) -> list[str]:
    """Where a module, or a program that it writes down, changes `sys.path`."""
    place = "sys." + "path"
    found = [
        text for text in strings(tree) if any(f"{place}.{verb}(" in text for verb in ("insert", "append", "extend"))
    ]
    for node in ast.walk(tree):
        targets = [node.func.value] if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else []
        if isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        targets = [target.value if isinstance(target, ast.Subscript) else target for target in targets]
        found += [ast.unparse(node) for target in targets if ast.unparse(target) == SEARCH_PATH]
    return found


def candidates_in(tree: ast.Module) -> list[str]:
    """Candidates that stand in a module as code rather than as text."""
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ModelNew"]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_module_holds_no_candidate_no_second_expectation_and_no_change_of_the_search_path(module: Path) -> None:
    tree = parsed(module)
    assert candidates_in(tree) == [], "a candidate's source belongs in tests/corpus"
    assert told_twice(tree) == [], "the file's header tells what is expected of it"
    if module != FOREIGN:
        assert changes_of_the_search_path(tree) == [], "import it as tests.<room>.<module>"


def test_these_rules_see_what_they_forbid() -> None:
    assert candidates_in(parsed("class ModelNew(nn.Module):\n    pass"))
    assert told_twice(parsed("WRONG = [('faults/segfault.py', SOFTMAX, 'runtime_error', {'crashed'})]"))
    assert told_twice(parsed("WRONG = {'segfault': ('crashed', 'in forward')}\nread_entries([])"))
    for line in ("{}.insert(0, 'x')", "{}[:0] = ['x']", "{} += ['x']", "code = '{}.append(1)'"):
        assert changes_of_the_search_path(parsed(line.format(SEARCH_PATH)))
    assert not changes_of_the_search_path(parsed(f"environment = os.pathsep.join({SEARCH_PATH})"))


def test_every_file_of_the_corpus_has_a_header_of_its_own() -> None:
    entries = read_entries([CORPUS / folder for folder in FOLDERS])  # refuses a bad header and an id used twice
    cases = {path for path in CORPUS.rglob("*.py") if path.parent.name == "_cases"}
    problems = set((CORPUS / "problems").glob("*.py"))
    assert {entry.path for entry in entries} == {*CORPUS.rglob("*.py")} - cases - problems
    assert {path.relative_to(CORPUS).parts[0] for path in CORPUS.rglob("*.py")} == {*FOLDERS, "problems"}


def test_no_kernel_stands_in_the_corpus_twice() -> None:
    """The same code on the same terms; docstrings and comments aside."""
    seen: dict[tuple[object, ...], Path] = {}
    for entry in read_entries([CORPUS / folder for folder in FOLDERS]):
        source = candidate_of(entry).source
        try:
            tree = ast.parse(source)
            text = ast.dump(ast.Module([n for n in tree.body if not _is_docstring(n)], []))
        except SyntaxError:
            text = source
        header = entry.header
        key = (text, header.problem, header.precision, header.terms, header.where, header.finalist)
        assert key not in seen, f"{entry.path.relative_to(CORPUS)} is {seen[key].relative_to(CORPUS)} once more"
        seen[key] = entry.path


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
