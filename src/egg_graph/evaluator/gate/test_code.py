"""Leave out the test code that answers carry along: `get_inputs`, `get_init_inputs`, tests, a `__main__` block.

What is left out neither runs nor is judged. Lines keep their numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from egg_graph.evaluator.gate.blanking import blanked
from egg_graph.schema.syntax import UNREADABLE, syntax_tree

TEST_NAMES = frozenset({"get_inputs", "get_init_inputs", "main", "test", "run_test", "benchmark"})
"""Functions of a reference or a test, which a candidate does not need."""


def is_test_name(name: str) -> bool:
    """Whether a function of this name is a part of a reference or a test."""
    return name in TEST_NAMES or name.startswith("test_")


def without_test_code(source: str) -> tuple[str, tuple[str, ...]]:
    """Return a source without its test code, and what was left out.

    A function stays if other code names it. A function or an import goes along if only the test code needs it.

    Args:
        source: any text; what is no Python is returned as it is.
    """
    try:
        tree = syntax_tree(source)
    except UNREADABLE:
        return source, ()
    tests = _tests(tree.body)
    if not tests:
        return source, ()
    dropped = [*tests, *_imports_for(tests, tree.body)]
    shorter = blanked(source, tree, dropped)
    if shorter is None:
        return source, ()
    return shorter, tuple(_words(node) for node in dropped)


def is_main_block(node: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":` with no `else`."""
    if not isinstance(node, ast.If) or node.orelse or not isinstance(node.test, ast.Compare):
        return False
    sides = (node.test.left, *node.test.comparators)
    names = [side.id for side in sides if isinstance(side, ast.Name)]
    texts = [side.value for side in sides if isinstance(side, ast.Constant)]
    return names == ["__name__"] and texts == ["__main__"] and isinstance(node.test.ops[0], ast.Eq)


def _tests(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return the test code among statements; without the functions that other code names."""
    tests = [
        node
        for node in body
        if is_main_block(node)
        or (isinstance(node, ast.FunctionDef) and is_test_name(node.name) and not node.decorator_list)
    ]
    while True:
        needed = set(_names([node for node in body if node not in tests]))
        fewer = [node for node in tests if not isinstance(node, ast.FunctionDef) or node.name not in needed]
        if len(fewer) == len(tests):
            break
        tests = fewer
    while helpers := list(_helpers(tests, body)):
        tests += helpers
    return tests


def _helpers(tests: Sequence[ast.stmt], body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the functions that test code names, and no other code but themselves."""
    used = set(_names(tests))
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name in used and node not in tests and not node.decorator_list:
            others = [other for other in body if other is not node and other not in tests]
            if node.name not in set(_names(others)):
                yield node


def _imports_for(tests: Sequence[ast.stmt], body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the imports of which the test code uses all names, and other code none."""
    used = set(_names(tests))
    needed = set(_names([node for node in body if node not in tests]))
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound = {alias.asname or alias.name.split(".")[0] for alias in node.names}
            if bound <= used and not bound & needed:
                yield node


def _names(nodes: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield every name, attribute and string of some statements: whatever may refer to a function."""
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _words(node: ast.stmt) -> str:
    if isinstance(node, ast.FunctionDef):
        return f"{node.name}()"
    if isinstance(node, ast.Import | ast.ImportFrom):
        return f"`{ast.unparse(node)}`"
    return 'the block `if __name__ == "__main__"`'
