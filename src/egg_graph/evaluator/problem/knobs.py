"""Find and replace the integers of a reference that may vary, from its syntax tree alone; nothing is executed.

A knob is one such integer, by name:

- `N`                  module-level `N = 4096` (also `N = 64 * 64`)
- `shape.0`            first element of module-level `shape = (16, 1024)`
- `get_inputs.0`       first integer written inside `get_inputs` (likewise `get_init_inputs.0`)

A factor or a term of a size (`BLOCKS * 64`, `(N + 127) // 128`) is no knob: other places of the reference, or the
kernel that it describes, know it, too. An integer that only bounds the values drawn, such as `high` in
`torch.randint(low, high, size)`, is no knob. With smaller values the problem would be another one, in which an int32
sum no longer overflows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from egg_graph.schema import BadInput
from egg_graph.schema.syntax import syntax_tree

INPUT_FUNCTIONS = ("get_inputs", "get_init_inputs")
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Pow, ast.LShift)
"""Operators between integer literals that make one integer."""
VALUE_KEYWORDS = frozenset({"low", "high", "from", "to", "min", "max", "mean", "std", "fill_value"})
"""Keyword arguments that bound or are values."""
VALUE_METHODS = frozenset({"random_", "uniform_", "normal_", "clamp", "clamp_", "clip", "fill_"})
"""Methods all of whose arguments are bounds or values. As functions of torch they take a tensor first, which holds no
integer."""


def shape_knobs(source: str) -> dict[str, int]:
    """The knobs of a reference and their values, in source order.

    Raises:
        BadInput: if the source is not Python.
    """
    return {name: _constant(node) for name, node in _knobs_of(source)}


def override(source: str, knobs: Mapping[str, int]) -> str:
    """Put other integers into a source. Comments, layout and line numbers stay.

    Args:
        source: a reference's source.
        knobs: new values by name of the knob.

    Raises:
        BadInput: if a knob does not exist; the message names those that do.
    """
    nodes = dict(_knobs_of(source))
    unknown = sorted(set(knobs) - set(nodes))
    if unknown:
        raise BadInput(f"reference has no integer named {', '.join(unknown)}; it has: {', '.join(nodes) or 'none'}")
    lines = source.encode().splitlines(keepends=True)  # ast counts columns in UTF-8 bytes
    for name, value in sorted(knobs.items(), key=lambda kv: _position(nodes[kv[0]]), reverse=True):
        node = nodes[name]
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        # An expression over several lines keeps its line breaks, so that later line numbers still hold.
        lines[first : last + 1] = [head + str(int(value)).encode() + b" \\\n" * (last - first) + tail]
    return b"".join(lines).decode()


def parse_reference(source: str) -> ast.Module:
    """Parse a reference's source.

    Raises:
        BadInput: if it is not Python.
    """
    try:
        return syntax_tree(source)
    except SyntaxError as error:
        raise BadInput(f"reference, line {error.lineno}: not valid Python: {error.msg}") from None


@lru_cache(maxsize=8)
def _knobs_of(source: str) -> tuple[tuple[str, ast.expr], ...]:
    """Names and nodes of a source's knobs; a search for shapes asks for those of one source a hundred times."""
    return tuple(_knob_nodes(parse_reference(source)))


def _knob_nodes(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Name and node of every knob. A name that is assigned twice keeps its last assignment, as in Python.

    A constant that only `Model` reads is no knob, because a candidate could not be told its new value. A constant that
    only bounds values is none either, unless it also is a size, by name or by value (classes, a vocabulary).
    """
    found: dict[str, ast.expr] = {}
    reaching = _names_reaching_inputs(tree)
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            # `height = width = 512` is one integer, under the first of its names that matters.
            targets = sorted(statement.targets, key=lambda target: not _names(target) & reaching)
            found.update(_assigned_integers(targets[0], statement.value))
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            found.update(_assigned_integers(statement.target, statement.value))
        elif isinstance(statement, ast.FunctionDef) and statement.name in INPUT_FUNCTIONS:
            body = [node for child in statement.body for node in _integers(child)]
            for index, node in enumerate(sorted(body, key=_position)):
                found[f"{statement.name}.{index}"] = node
    found = {name: node for name, node in found.items() if name.split(".")[0] in reaching}
    bounds = _nodes_within_bounds(tree)
    sizes = {_constant(node) for node in found.values() if id(node) not in bounds}
    for name, node in found.items():
        if id(node) not in bounds or _constant(node) in sizes:
            yield name, node


def _names_reaching_inputs(tree: ast.Module) -> set[str]:
    """Module-level names that `get_inputs` and `get_init_inputs` read, directly or through other such names."""
    reads = names_assigned_from(tree)
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            reads.setdefault(statement.name, set()).update(_names(statement))
    return reachable_names(reads, INPUT_FUNCTIONS)


def names_assigned_from(tree: ast.Module) -> dict[str, set[str]]:
    """The names that module-level assignments read, by the name that they assign to."""
    reads: dict[str, set[str]] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for name in set().union(*map(_names, targets)):
                reads.setdefault(name, set()).update(_names(statement.value))
    return reads


def reachable_names(reads: Mapping[str, set[str]], starts: Iterable[str]) -> set[str]:
    """The names that some names read, directly or through others, themselves included; all of them keys of `reads`."""
    reached, waiting = set[str](), [name for name in starts if name in reads]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += reads[name] & reads.keys()
    return reached


def _names(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def _position(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _assigned_integers(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Names and nodes of the integers that one assignment gives a name to; elements of a tuple are numbered."""
    for name, given in _pairs(target, value):
        if isinstance(given, ast.Tuple | ast.List):
            yield from ((f"{name}.{index}", x) for index, x in enumerate(given.elts) if _is_integer(x))
        elif _is_integer(given):
            yield name, given


def _integers(node: ast.AST) -> Iterator[ast.expr]:
    """The largest constant integer expressions below a node (`64 * 64` is one knob, not two)."""
    if isinstance(node, ast.expr) and _is_integer(node):
        yield node
        return
    if isinstance(node, ast.UnaryOp):
        return  # `-1` names an axis, not a size
    if isinstance(node, ast.BinOp):
        for side in (node.left, node.right):
            if not _is_integer(side):
                yield from _integers(side)
        return
    for field, child in ast.iter_fields(node):
        if isinstance(node, ast.Subscript) and field == "slice":
            continue  # an index, not a size
        for item in child if isinstance(child, list) else [child]:
            if isinstance(item, ast.AST):
                yield from _integers(item)


def _is_integer(node: ast.expr) -> bool:
    """Whether a node is an integer literal or arithmetic on such literals."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ARITHMETIC) and _is_integer(node.left) and _is_integer(node.right)
    return isinstance(node, ast.Constant) and type(node.value) is int


def _constant(node: ast.expr) -> int:
    """The value of a node for which `_is_integer` holds."""
    return int(eval(compile(ast.Expression(node), "<constant>", "eval"), {"__builtins__": {}}))


def _nodes_within_bounds(tree: ast.AST) -> frozenset[int]:
    """`id` of every node that only bounds values: inside a bound of a call, or assigned to a name for such a bound."""
    inside = {
        id(node)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for bound in _bounds_of_call(call)
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


def _bounds_of_call(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call that bound or are values."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    arguments: list[ast.expr]
    if name == "randint":
        sized = "size" in given or len(call.args) > 2
        arguments = call.args[: 2 if sized or "high" in given else 1]
    elif name in ("randint_like", "full", "full_like"):
        arguments = call.args[1:]
    elif name in VALUE_METHODS:
        arguments = call.args
    else:
        return []
    return [*arguments, *(value for keyword, value in given.items() if keyword in VALUE_KEYWORDS)]


def _assignments(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names and the values that are assigned to them; `a, b = 1, 2` counts as two assignments."""
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
