"""Kernels whose source their launcher writes at run time: the gate judges the text that is to be their new source."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import textwrap
from typing import Any

from egg_graph.evaluator.gate import audit
from egg_graph.evaluator.gate.static_gate import check_tree
from egg_graph.schema import Finding


def source_of(function: Any) -> str:
    """Return a function's source as Triton keeps it: from its `def`, not indented."""
    text = textwrap.dedent("".join(inspect.getsourcelines(function)[0]))
    found = re.search(r"^def\s+\w+\s*\(", text, re.MULTILINE)
    return text[found.start() :] if found else text


def judge_written(function: Any, text: str) -> None:
    """End the process, or raise outside of a child, if a candidate's function may not have this source.

    Raises:
        KernelFault: what the static gate finds in it.
    """
    finding = check_written(function, text)
    if finding is not None:
        audit.refuse(finding)


def check_written(function: Any, text: str) -> Finding | None:
    """Return what is wrong with a candidate in which a function has another source."""
    code = function.__code__
    tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    old = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _begins(node) == code.co_firstlineno
    ]
    try:
        new = ast.parse(text).body
    except (SyntaxError, ValueError) as error:
        return Finding(kind="syntax_error", message=f"the source written for {function.__name__}: {error}")
    if len(old) != 1 or len(new) != 1 or not isinstance(new[0], ast.FunctionDef):
        message = f"the source written for {function.__name__} is not one function"
        return Finding(kind="forbidden_construct", message=message, cure="write the kernel out")
    ast.increment_lineno(new[0], old[0].lineno - 1)
    old[0].args, old[0].body, old[0].returns = new[0].args, new[0].body, new[0].returns
    return next(iter(check_tree(tree)), None)


def _begins(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def watch_sources() -> None:
    """Judge every source that a kernel was given before Triton compiles it, for the rest of the process."""
    from triton.runtime.jit import JITCallable

    original = JITCallable.parse
    if hasattr(original, "__wrapped__"):
        return

    def parse(self: Any) -> Any:
        if self.fn.__code__.co_filename in audit.watched() and self.src != source_of(self.fn):
            judge_written(self.fn, self.src)
        return original(self)

    parse.__wrapped__ = original  # type: ignore[attr-defined]
    JITCallable.parse = parse
