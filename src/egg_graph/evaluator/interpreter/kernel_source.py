"""How a kernel's source becomes the Python function that is interpreted, and how kernels call each other.

Triton's interpreter executes a kernel's source almost as Python does. `compiled_syntax` rewrites it to what the
compiler makes of it.
"""

import ast
from contextlib import suppress
from typing import Any

from triton.runtime.interpreter import FunctionRewriter, InterpretedFunction

from egg_graph.evaluator.gate.written_kernels import judge_written, source_of
from egg_graph.evaluator.interpreter import compiled_python, compiled_syntax
from egg_graph.evaluator.wire.launches import encode_captured

_rewrite = InterpretedFunction.rewrite


def call(self: Any, *args: Any, **keywords: Any) -> Any:
    """Replace `InterpretedFunction.__call__`, by which a kernel calls another `@triton.jit` function.

    The original patches `triton.language` at every call, which `install.install` has done for good, and hides errors in
    an `InterpreterError`.
    """
    return self.rewrite()(*args, **keywords)


def compile_and_exec(self: Any, tree: Any) -> Any:
    """Replace `FunctionRewriter._compile_and_exec`, which makes a Python function of a kernel's syntax tree.

    The original copies all names of the interpreter module into the candidate's globals, where they would hide a
    missing `import math`. This one adds one name, and finds what the function captured where it was defined.
    """
    names = self.fn.__globals__
    if self.fn.__closure__:
        captured = zip(self.fn.__code__.co_freevars, self.fn.__closure__, strict=True)
        names = names | {name: cell.cell_contents for name, cell in captured}
    compiled_syntax.rewrite(tree, known=names)
    names[compiled_syntax.MEANING] = compiled_python
    local = dict(self.kwargs)
    exec(compile(tree, filename=self.filename, mode="exec"), names, local)
    return local[self.fn.__name__]


def source(self: Any) -> str:
    """`src` of a compiled kernel."""
    text: str | None = vars(self).get("_src")
    return source_of(self.fn) if text is None else text


def refuse_source(self: Any, text: str) -> None:
    """Refuse an assignment to `src`, as a compiled kernel does."""
    raise AttributeError("Cannot set attribute 'src' directly. Use '_unsafe_update_src()'")


def update_source(self: Any, text: str) -> None:
    """`_unsafe_update_src` of a compiled kernel."""
    self.hash, self._src = None, text


def written_source(self: Any) -> str:
    """Return the source that the candidate wrote at run time; empty if the kernel has the one of its file."""
    text = vars(self).get("_src")
    return text if text is not None and text != source_of(self.fn) else ""


def rewrite(self: Any) -> Any:
    """Replace `InterpretedFunction.rewrite`, which knows no source but the one of the file."""
    text = written_source(self)
    if not text:
        return _rewrite(self)
    if vars(self).get("_written", ("", None))[0] != text:
        judge_written(self.fn, text)
        self._written = text, _function_of(self, text)
    return self._written[1]


def _function_of(self: Any, text: str) -> Any:
    rewriter = self.rewriter
    rewriter.filename, rewriter.def_file_lineno = rewriter._get_jit_fn_file_line()
    tree = ast.parse(text)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.name, function.decorator_list = self.fn.__name__, []
    ast.increment_lineno(tree, rewriter.def_file_lineno - 1)
    return rewriter._compile_and_exec(tree)


def captured(function: Any) -> dict[str, Any]:
    """Return what a nested function captured, by name, as `Launch.captured` holds it; what has no JSON form is left."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(TypeError, ValueError):  # ValueError of a cell that is still empty
            found[name] = encode_captured(cell.cell_contents)
    return found


def install() -> None:
    """Replace how Triton rewrites kernels and how kernels call each other."""
    InterpretedFunction.__call__ = call
    InterpretedFunction.rewrite = rewrite
    InterpretedFunction.hash = None
    InterpretedFunction.src = property(source, refuse_source)
    InterpretedFunction._unsafe_update_src = update_source
    FunctionRewriter.ast_transformer = ast.NodeTransformer()
    FunctionRewriter._compile_and_exec = compile_and_exec
