"""Integers of a reference that bound the values it draws, as `high` in `torch.randint(low, high, size)`.

They are no sizes: a problem with smaller values is another problem, in which an int32 sum no longer overflows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

KEYWORDS = frozenset({"low", "high", "from", "to", "min", "max", "mean", "std", "fill_value"})
ALL_ARGUMENTS = frozenset({"random_", "uniform_", "normal_", "clamp", "clamp_", "clip", "fill_"})
"""Methods that take bounds or values alone; as functions of torch they take a tensor first, which holds no integer."""


def bounds_of(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call that bound or are values."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    places: list[ast.expr]
    if name == "randint":
        sized = "size" in given or len(call.args) > 2
        places = call.args[: 2 if sized or "high" in given else 1]
    elif name in ("randint_like", "full", "full_like"):
        places = call.args[1:]
    elif name in ALL_ARGUMENTS:
        places = call.args
    else:
        return []
    return [*places, *(value for keyword, value in given.items() if keyword in KEYWORDS)]


def within_bounds(tree: ast.AST) -> frozenset[int]:
    """`id` of every node that only bounds values: in a call's bounds, or in what a name for such is assigned."""
    inside = {
        id(node)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for bound in bounds_of(call)
        for node in ast.walk(bound)
    }
    read = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    for _ in range(3):  # a name for a bound may be made of another one
        sizes = {name.id for name in read if id(name) not in inside}
        bounds = {name.id for name in read} - sizes
        for target, value in _assignments(tree):
            if target in bounds and not any(isinstance(node, ast.Call) for node in ast.walk(value)):
                inside |= {id(node) for node in ast.walk(value)}
    return frozenset(inside)


def _assignments(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names and what they are assigned, `a, b = 1, 2` as two."""
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield from _pairs(target, statement.value)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            yield from _pairs(statement.target, statement.value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for left, right in zip(target.elts, value.elts, strict=True):
            yield from _pairs(left, right)
