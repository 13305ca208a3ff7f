"""How a kernel's source is rewritten before it is interpreted.

Triton's interpreter runs `for i in range(...)` as Python does. In a compiled kernel `i` is a scalar tensor of the
bounds' common integer type: it has `.to(tl.int64)`, and in int32 it wraps around. Only `tl.static_range` is unrolled.
So loops are rewritten to yield scalar tensors.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import FunctionRewriter, InterpretedFunction

from egg_graph.evaluator.interpreter.handles import make, numpy_dtype
from egg_graph.evaluator.interpreter.run_state import current_run

LOOP_NAME = "interpreter_loop"
"""Name of `loop` in the globals of a rewritten kernel."""


def call(self: Any, *args: Any, **keywords: Any) -> Any:
    """Replace `InterpretedFunction.__call__`, by which a kernel calls another `@triton.jit` function.

    The original patches `triton.language` at every call, which `install.install` has done for good, and hides errors in
    an `InterpreterError`.
    """
    return self.rewrite()(*args, **keywords)


def compile_and_exec(self: Any, tree: Any) -> Any:
    """Replace `FunctionRewriter._compile_and_exec`, which makes a Python function of a kernel's syntax tree.

    The original copies all names of the interpreter module into the candidate's globals, where they would hide a
    missing `import math`. This one adds two names, and rewrites the loops.
    """
    rewrite_loops(tree)
    code = compile(tree, filename=self.filename, mode="exec")
    names = self.fn.__globals__
    names.setdefault("interpreter_semantic", interpreter.interpreter_semantic)
    names.setdefault(LOOP_NAME, loop)
    local = dict(self.kwargs)
    exec(code, names, local)
    return local[self.fn.__name__]


def rewrite_loops(tree: ast.AST) -> None:
    """Turn every `for … in range(…)` and `for … in tl.range(…)` into a call of `loop`, in place."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.For) or not isinstance(node.iter, ast.Call):
            continue
        function = node.iter.func
        named = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        if named == "range":
            node.iter.args.insert(0, function)
            node.iter.func = ast.copy_location(ast.Name(LOOP_NAME, ast.Load()), function)


def loop(function: Callable[..., Iterable[Any]], *bounds: Any, **options: Any) -> Iterable[Any]:
    """Yield what `function(*bounds, **options)` yields; the integers of a `range` become scalar tensors."""
    values = function(*bounds, **options)
    return _scalars(values, _common_type(values, bounds, options)) if isinstance(values, range) else values


def _scalars(values: range, dtype: Any) -> Iterator[Any]:
    storage, run = numpy_dtype(dtype), current_run()
    for value in values:
        run.steps += 1
        yield tl.tensor(make(np.array([value], storage), dtype), dtype)


def _common_type(values: range, bounds: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the integer type that Triton promotes start, end and step to."""
    semantic = interpreter.interpreter_semantic
    given = [*bounds, *(options[name] for name in ("arg1", "arg2", "step") if options.get(name) is not None)]
    types = [semantic.to_tensor(value).dtype for value in (*given, values.step)]
    return reduce(semantic.integer_promote_impl, types)


def install() -> None:
    """Replace how Triton rewrites kernels and how kernels call each other."""
    InterpretedFunction.__call__ = call
    FunctionRewriter._compile_and_exec = compile_and_exec
