"""How a kernel's source becomes the Python function that is interpreted, and how kernels call each other.

Triton's interpreter executes a kernel's source almost as Python does. `compiled_syntax` rewrites it to what the
compiler makes of it.
"""

import ast
from typing import Any

from triton.runtime.interpreter import FunctionRewriter, InterpretedFunction

from egg_graph.evaluator.interpreter import compiled_python, compiled_syntax


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


def install() -> None:
    """Replace how Triton rewrites kernels and how kernels call each other."""
    InterpretedFunction.__call__ = call
    FunctionRewriter.ast_transformer = ast.NodeTransformer()
    FunctionRewriter._compile_and_exec = compile_and_exec
