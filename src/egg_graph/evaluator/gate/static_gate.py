"""The static gate: what a candidate's syntax tree tells before any of it runs.

It reads constructs, never words: a docstring may say anything. It is a tripwire for broken contracts and for Python
that Triton cannot compile. What it lets through still runs in a child process that holds no answers.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator

from egg_graph.evaluator.gate.judged_text import judged_text
from egg_graph.evaluator.gate.names import Names
from egg_graph.evaluator.gate.own_operators import check_own_operators
from egg_graph.evaluator.gate.report import Report
from egg_graph.evaluator.gate.test_code import is_test_name
from egg_graph.evaluator.gate.uses import UseCheck
from egg_graph.schema import Candidate, Finding
from egg_graph.schema.syntax import syntax_tree


def check(candidate: Candidate) -> tuple[Finding, ...]:
    """Return everything that is wrong with what is judged of a candidate's text; empty if it may run."""
    if not candidate.source.strip():
        return (Finding(kind="no_code", message=candidate.problem or "there is no source"),)
    try:
        tree = syntax_tree(judged_text(candidate.source).source)
        if finding := _other_encoding(candidate.source):
            return (finding,)
        return tuple(check_tree(tree))
    except (SyntaxError, ValueError) as error:
        return (_syntax(error),)
    except (RecursionError, MemoryError):
        return (Finding(kind="syntax_error", message="nested too deeply to be read"),)


def _other_encoding(source: str) -> Finding | None:
    """Return a finding if a comment in the first two lines names an encoding by which Python reads other code.

    Raises:
        SyntaxError: if there is no such encoding.
    """
    raw = source.encode()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    if encoding.startswith("utf-8") or raw.decode(encoding, "replace") == source:
        return None
    return Finding(
        kind="forbidden_construct",
        message=f"read as {encoding}, which a comment at its top asks for, the source is another one",
        where="line 1",
        cure="leave the comment out: source code is UTF-8",
    )


def _syntax(error: SyntaxError | ValueError) -> Finding:
    if not isinstance(error, SyntaxError):
        return Finding(kind="syntax_error", message=f"not valid Python: {error}")
    text = f": {error.text.strip()[:120]}" if error.text else ""
    return Finding(kind="syntax_error", message=f"not valid Python: {error.msg}{text}", where=f"line {error.lineno}")


def check_tree(tree: ast.Module) -> list[Finding]:
    """Return everything that is wrong with a candidate's syntax tree."""
    names, report = Names(tree), Report()
    uses = UseCheck(names, report)
    for node in names.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            uses.check_import(node)
    uses.refused.update(id(node) for node in _refuse_tests(tree, names, report))
    uses.refused.update(id(node) for node in check_own_operators(names, report))
    for node in names.nodes:
        uses.check(node)
    kernels = list(_kernels(names))
    if not kernels:
        report.add("no_triton_kernel", tree, "no function is decorated with @triton.jit", "write one")
    for kernel in kernels:
        _check_kernel(kernel, report)
    _check_entry_point(tree, report)
    return report.findings


def _refuse_tests(tree: ast.Module, names: Names, report: Report) -> Iterator[ast.AST]:
    """Report test code; yields the uses of `__name__` in it, which need no finding of their own."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and is_test_name(node.name):
            if not any(_is_jit(d, names) for d in node.decorator_list):
                cure = "leave only imports, kernels, wrappers, ModelNew"
                report.add("test_code", node, f"test code: {node.name}()", cure)
        elif isinstance(node, ast.If):
            asked = [n for n in ast.walk(node.test) if isinstance(n, ast.Name) and n.id == "__name__"]
            if asked:
                report.add("test_code", node, 'test code: `if __name__ == "__main__"`', "leave it out")
                yield from asked


def _is_jit(node: ast.expr, names: Names) -> bool:
    dotted = names.dotted(node.func if isinstance(node, ast.Call) else node)
    return not dotted.isdisjoint(("triton.jit", "triton.runtime.jit.jit", "triton.runtime.jit"))


def _kernels(names: Names) -> Iterator[ast.FunctionDef]:
    """Yield the functions that `@triton.jit` decorates, or that `triton.jit(function)` names."""
    wrapped = {
        argument.id
        for node in names.nodes
        if isinstance(node, ast.Call) and _is_jit(node.func, names)
        for argument in node.args
        if isinstance(argument, ast.Name)
    }
    for node in names.nodes:
        if not isinstance(node, ast.FunctionDef):
            continue
        if node.name in wrapped or any(_is_jit(d, names) for d in node.decorator_list):
            yield node


def _check_kernel(kernel: ast.FunctionDef, report: Report) -> None:
    """Report the first jump out of a loop, which Triton cannot compile."""
    words: dict[type[ast.AST], str] = {ast.Break: "break", ast.Continue: "continue", ast.Return: "return"}
    for loop in ast.walk(kernel):
        if not isinstance(loop, ast.For | ast.While):
            continue
        for node in (n for child in loop.body for n in ast.walk(child)):
            word = words.get(type(node))
            if word is not None:
                report.add(
                    "unsupported_in_kernel",
                    node,
                    f"`{word}` inside a loop of kernel {kernel.name}: Triton cannot compile it",
                    "compute on every iteration and mask out what must not count",
                )
                return


def _check_entry_point(tree: ast.Module, report: Report) -> None:
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    model = classes.get("ModelNew")
    if model is None:
        cure = "define `class ModelNew(nn.Module)` with the reference's __init__ and forward"
        report.add("missing_entry_point", tree, "there is no class ModelNew", cure)
    elif not any(isinstance(node, ast.FunctionDef) and node.name == "forward" for node in model.body):
        report.add("missing_entry_point", model, "ModelNew has no forward", "define it with the reference's arguments")
