"""Operators of a candidate's own (`torch.library.custom_op`, `triton_op`): allowed where they wrap its kernels."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from egg_graph.evaluator.gate.names import Names
from egg_graph.evaluator.gate.report import Report
from egg_graph.evaluator.gate.rules import HIDES, MAKES_OPERATORS


def check_own_operators(names: Names, report: Report) -> Iterator[ast.AST]:
    """Refuse what `custom_op` and `triton_op` may not be used for; yields the nodes that have got their finding.

    Allowed is `@triton_op(…)` above a function that launches a kernel, itself or through another function of the
    module, and `triton_op("mine::name", function, …)`.
    """
    functions = {node.name: node for node in names.nodes if isinstance(node, ast.FunctionDef)}
    allowed = set()
    for call, function in _made(names, functions):
        if _launches(function, functions, set()):
            allowed.add(id(call.func))
    inner: set[int] = set()
    for node in names.nodes:
        if not isinstance(node, ast.Attribute | ast.Name) or id(node) in inner or id(node) in allowed:
            continue
        used = names.dotted(node) & MAKES_OPERATORS
        if used and isinstance(node.ctx, ast.Load):
            report.refuse(node, f"use of {min(used)} for what launches no Triton kernel: {HIDES}")
            inner.update(id(part) for part in ast.walk(node))
            yield from ast.walk(node)


def _made(names: Names, functions: dict[str, ast.FunctionDef]) -> Iterator[tuple[ast.Call, ast.FunctionDef]]:
    """Yield the calls that make an operator, with the function that it wraps."""
    for node in names.nodes:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and names.dotted(decorator.func) & MAKES_OPERATORS:
                    yield decorator, node
        elif isinstance(node, ast.Call) and len(node.args) == 2 and names.dotted(node.func) & MAKES_OPERATORS:
            wrapped = node.args[1]
            if isinstance(wrapped, ast.Name) and wrapped.id in functions:
                yield node, functions[wrapped.id]


def _launches(function: ast.FunctionDef, functions: dict[str, ast.FunctionDef], seen: set[str]) -> bool:
    """Whether a function launches a kernel, `kernel[grid](…)`, or calls one of the module's functions that does."""
    seen.add(function.name)
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = functions.get(node.func.id)
            if called is not None and called.name not in seen and _launches(called, functions, seen):
                return True
    return False
