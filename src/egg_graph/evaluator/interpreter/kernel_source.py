"""Loop variables as the compiler makes them: scalar tensors, not Python's integers.

Triton's interpreter runs `for i in range(...)` as Python does. A compiled kernel's `i` is a tensor of the bounds'
common integer type: it has `.to(tl.int64)`, and in int32 it wraps around. Only `tl.static_range` is unrolled.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from egg_graph.evaluator.interpreter.handles import make, numpy_dtype
from egg_graph.evaluator.interpreter.run_state import current

NAME = "interpreter_loop"
"""Under which rewritten kernels find `loop` in their globals."""


def rewrite(tree: ast.AST) -> None:
    """Let every `for … in range(…)` and `for … in tl.range(…)` go through `loop`, in place."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.For) or not isinstance(node.iter, ast.Call):
            continue
        function = node.iter.func
        named = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        if named == "range":
            node.iter.args.insert(0, function)
            node.iter.func = ast.copy_location(ast.Name(NAME, ast.Load()), function)


def loop(function: Callable[..., Iterable[Any]], *bounds: Any, **options: Any) -> Iterable[Any]:
    """What `function(*bounds, **options)` yields, integers of a range as scalar tensors."""
    steps = function(*bounds, **options)
    return _scalars(steps, _common_type(steps, bounds, options)) if isinstance(steps, range) else steps


def _scalars(steps: range, dtype: Any) -> Iterator[Any]:
    storage, session = numpy_dtype(dtype), current()
    for value in steps:
        session.steps += 1
        yield tl.tensor(make(np.array([value], storage), dtype), dtype)


def _common_type(steps: range, bounds: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The integer type that Triton promotes start, end and step to."""
    semantic = interpreter.interpreter_semantic
    given = [*bounds, *(options[name] for name in ("arg1", "arg2", "step") if options.get(name) is not None)]
    types = [semantic.to_tensor(value).dtype for value in (*given, steps.step)]
    return reduce(semantic.integer_promote_impl, types)
