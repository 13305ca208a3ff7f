"""Mend a module that breaks the output contract in plain ways: take test code out, put missing imports in."""

import ast
import builtins
import symtable
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from egg_graph.schema.syntax import UNREADABLE, syntax_tree

_FORBIDDEN = frozenset({"get_inputs", "get_init_inputs"})
_IMPORTS = {
    "torch": "import torch",
    "nn": "import torch.nn as nn",
    "F": "import torch.nn.functional as F",
    "triton": "import triton",
    "tl": "import triton.language as tl",
    "libdevice": "from triton.language.extra import libdevice",
    "math": "import math",
    "np": "import numpy as np",
    "functools": "import functools",
    "Any": "from typing import Any",
    "Callable": "from typing import Callable",
    "Dict": "from typing import Dict",
    "List": "from typing import List",
    "Optional": "from typing import Optional",
    "Tuple": "from typing import Tuple",
    "Union": "from typing import Union",
}
"""Names with one usual meaning, in the order in which their imports are written."""
_MODULE_NAMES = frozenset({"__name__", "__file__", "__doc__", "__builtins__", "__annotations__"})


@dataclass(frozen=True)
class Module:
    """A module's source, and what was mended in it."""

    source: str
    mended: tuple[str, ...] = ()


def mend_module(source: str) -> Module:
    """Remove `if __name__`, get_inputs, get_init_inputs and top-level test code; add imports that are plainly missing.

    Everything else, comments included, stays as written. Source that does not parse is returned as it is.
    """
    tree = parse_python(source)
    if tree is None:
        return Module(source)
    removed = _test_code(source, tree)
    gone = set(removed)
    kept = [node for node in tree.body if node not in gone]
    missing = _missing_imports(kept)
    lines = without(source.split("\n"), removed, kept)
    head = min(header_end(kept, is_future_import), len(lines))
    lines[head:head] = [_IMPORTS[name] for name in missing]
    mended = [f"removed {_called(node)}" for node in removed] + [f"added {_IMPORTS[name]!r}" for name in missing]
    return Module("\n".join(lines).strip("\n") + "\n", tuple(mended)) if mended else Module(source)


def _test_code(source: str, tree: ast.Module) -> list[ast.stmt]:
    """Top-level statements that are test code, and those that only use names of such statements."""
    needed = _needed(source)
    removed: list[ast.stmt] = []
    removed_names: set[str] = set()
    for node in tree.body:
        if _is_forbidden(node) or (_is_test(node, removed_names) and not defined(node) & needed):
            removed.append(node)
            removed_names |= defined(node)
    return removed


def _needed(source: str) -> set[str]:
    """Module-level names that the classes and functions read, test functions aside."""
    children = _symbols(source).get_children()
    kept = [child for child in children if child.get_name() not in _FORBIDDEN and not _is_test_name(child.get_name())]
    return _global_reads(kept)


def _symbols(source: str) -> symtable.SymbolTable:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # see `_parse`
        return symtable.symtable(source, "<module>", "exec")


def _global_reads(tables: Iterable[symtable.SymbolTable]) -> set[str]:
    """Global names that are read in these scopes, or in any inside them."""
    waiting, names = list(tables), set()
    while waiting:
        table = waiting.pop()
        waiting += table.get_children()
        names |= {one.get_name() for one in table.get_symbols() if one.is_global() and one.is_referenced()}
    return names


def undefined_names(source: str, tree: ast.Module) -> set[str]:
    """Names that a module reads and neither defines nor finds among the builtins."""
    top = _symbols(source)
    read = {one.get_name() for one in top.get_symbols() if one.is_referenced()} | _global_reads(top.get_children())
    known = {name for node in tree.body for name in defined(node)} | set(dir(builtins)) | _MODULE_NAMES
    return read - known


def is_test_code(node: ast.stmt) -> bool:
    """True for a top-level statement that belongs in no module, whatever the others are."""
    return _is_forbidden(node) or _is_test(node, set())


def _is_forbidden(node: ast.stmt) -> bool:
    """`if __name__ ...`, get_inputs, get_init_inputs."""
    return _is_main_guard(node) or (
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in _FORBIDDEN
    )


def _is_test(node: ast.stmt, removed_names: set[str]) -> bool:
    """A test function, a statement that runs the model, or one that uses a removed name."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return _is_test_name(node.name) and not node.decorator_list
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.ClassDef)):
        return False
    return bool(_names_in([node]) & removed_names) or _runs_the_model(node)


def _is_main_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and any(
        isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test)
    )


def _is_test_name(name: str) -> bool:
    return name in ("main", "test") or name.startswith(("test_", "run_test", "benchmark", "_test"))


def _runs_the_model(node: ast.stmt) -> bool:
    """A call of the model, a print or an assertion at top level."""
    if isinstance(node, ast.Assert):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = node.value.func
        return isinstance(function, ast.Name) and (function.id == "print" or _is_test_name(function.id))
    return any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in {"Model", "ModelNew"}
        for part in ast.walk(node)
    )


def _missing_imports(body: list[ast.stmt]) -> list[str]:
    bound = {name for node in body for name in defined(node)}
    used = _names_in(body)
    return [name for name in _IMPORTS if name in used and name not in bound]


def _names_in(nodes: Iterable[ast.stmt]) -> set[str]:
    """Names that are read anywhere in these statements."""
    return {
        part.id
        for node in nodes
        for part in ast.walk(node)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)
    }


def defined(node: ast.stmt) -> set[str]:
    """Names that a top-level statement binds in the module."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    found: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in part.names}
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            found.add(part.id)
    return found


def _called(node: ast.stmt) -> str:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return node.name
    return "the __main__ block" if _is_main_guard(node) else f"test code at line {node.lineno}"


def span(node: ast.stmt) -> range:
    """Line numbers of a statement from 1, decorators included."""
    decorators = getattr(node, "decorator_list", [])
    return range(min([node.lineno, *(d.lineno for d in decorators)]), (node.end_lineno or node.lineno) + 1)


def without(lines: list[str], removed: Sequence[ast.stmt], kept: Sequence[ast.stmt]) -> list[str]:
    """The lines without those of `removed`; a line shared with a kept statement (`a = 1; print(a)`) stays."""
    stays = {number for node in kept for number in span(node)}
    drops = {number for node in removed for number in span(node)} - stays
    return [text for number, text in enumerate(lines, start=1) if number not in drops]


def is_future_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def header_end(body: Iterable[ast.stmt], belongs: Callable[[ast.stmt], bool]) -> int:
    """The last line, from 1, of a module's docstring and of the statements right behind it that belong to its header.

    0 where there are none.
    """
    end = 0
    for position, node in enumerate(body):
        docstring = position == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not docstring and not belongs(node):
            break
        end = node.end_lineno or node.lineno
    return end


def parse_python(source: str) -> ast.Module | None:
    """The syntax tree; None where the text is no Python, or more than the parser can take."""
    try:
        return _parse(source)
    except UNREADABLE:
        return None


def error_line(source: str) -> int | None:
    """The line of the first syntax error, from 1; None where the text parses."""
    try:
        _parse(source)
    except UNREADABLE as error:
        return getattr(error, "lineno", None) or 1
    return None


def _parse(source: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as "\d" in a docstring
        tree = syntax_tree(source)
        compile(tree, "<module>", "exec")  # finds what the grammar allows but Python does not: a stray `return`
        return tree
