"""What Python's constructs mean in a compiled kernel: the functions that `compiled_syntax` puts in their place.

Triton's code generator (`triton.compiler.code_generator`) visits a kernel's syntax tree. What is known at compile time
keeps Python's meaning. On tensors, `and`, `or`, `not` are elementwise and evaluate all operands, Python's `min` and
`max` are `tl.minimum` and `tl.maximum`, and an assignment turns a number into a scalar tensor.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from egg_graph.evaluator.interpreter.conditions import refuse, truth, unwrap
from egg_graph.evaluator.interpreter.handles import make, numpy_dtype
from egg_graph.evaluator.interpreter.run_state import current_run
from egg_graph.evaluator.interpreter.while_loops import WhileLoop

__all__ = ["WhileLoop", "refuse", "truth"]

COMPILED_VALUES = (tl.core.base_value, int, float, tuple)
"""Types of what the compiled code holds; numbers and tuples stand for constants of it."""


def kept(condition: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return those locals of the kernel that an `if` on a tensor leaves as they are, though one branch assigns them.

    They are those that hold no value of the compiled code: None, a dtype, a function.
    """
    if not isinstance(condition, tl.tensor):
        return {}
    local = sys._getframe(1).f_locals
    return {name: local[name] for name in names if name in local and not isinstance(local[name], COMPILED_VALUES)}


def ternary(condition: Any, chosen: Any) -> Any:
    """Return what `a if condition else b` chose; a number becomes a tensor where the condition is one."""
    return interpreter.interpreter_semantic.to_tensor(chosen) if isinstance(condition, tl.tensor) else chosen


def conjunction(*operands: Callable[[], Any]) -> Any:
    """Evaluate `a and b`: up to the first false constant; tensors are combined element by element."""
    return _combined("and", operands, ends=False, combine=interpreter.interpreter_semantic.logical_and)


def disjunction(*operands: Callable[[], Any]) -> Any:
    """Evaluate `a or b`: up to the first true constant; tensors are combined element by element."""
    return _combined("or", operands, ends=True, combine=interpreter.interpreter_semantic.logical_or)


def _combined(word: str, operands: tuple[Callable[[], Any], ...], *, ends: bool, combine: Callable[..., Any]) -> Any:
    tensors: list[Any] = []
    value: Any = None
    for operand in operands:
        value = unwrap(operand())
        if isinstance(value, tl.tensor):
            tensors.append(value)
        elif bool(value) is ends:
            return value
    if len(tensors) > 1:
        _want_booleans(word, tensors)
    return reduce(combine, tensors) if tensors else value


def _want_booleans(word: str, tensors: list[Any]) -> None:
    for tensor in tensors:
        if not tensor.type.scalar.is_int1():
            refuse(f"`{word}` of a tensor of type {tensor.type}", "Compare it first: a tensor of booleans is needed.")


def negation(operand: Any) -> Any:
    """Evaluate `not a`, element by element for a tensor."""
    operand = unwrap(operand)
    if isinstance(operand, tl.tensor):
        _want_booleans("not", [operand])
        return interpreter.interpreter_semantic.not_(operand)
    return not operand


def identical(left: Any, right: Any) -> bool:
    """Evaluate `a is b`, which the compiler decides on the values of constants."""
    return unwrap(left) is unwrap(right)


def assigned(value: Any) -> Any:
    """Return what a name holds after an assignment: a number, also one within a tuple, is a scalar tensor then."""
    value = unwrap(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(assigned, value))
    if isinstance(value, tuple | list | tl.tuple):
        return tl.tuple([tl.constexpr(None) if item is None else assigned(item) for item in value])
    return interpreter.interpreter_semantic.to_tensor(value, False)


def first_items(value: Any, targets: Any) -> Any:
    """Return the items of a tuple that targets take: the compiler takes no notice of those beyond.

    Args:
        value: of an assignment.
        targets: None for one target, a tuple of such for several.
    """
    if targets is None or not isinstance(value, tl.tuple):
        return value
    return tl.tuple([first_items(item, target) for item, target in zip(value.values, targets, strict=False)])


def annotated(annotation: Any, value: Any) -> Any:
    """Return what `name: annotation = value` holds: `tl.constexpr` keeps a number known at compile time."""
    return unwrap(value) if annotation is tl.constexpr else assigned(value)


def value_attribute(value: Any) -> Any:
    """Return `x.value`, which the compiler grants every constant; the interpreter holds constants as plain numbers."""
    return value.value if hasattr(value, "value") else value


def assertion(condition: Any, message: Any = "") -> None:
    """Execute `assert`, a `tl.device_assert` in a compiled kernel: it does nothing unless debugging is on."""
    tl.device_assert(condition, message)


def minimum(*values: Any, **options: Any) -> Any:
    """Evaluate Python's `min`: `tl.minimum` where an operand is a tensor."""
    return _extreme("min", min, tl.minimum, values, options)


def maximum(*values: Any, **options: Any) -> Any:
    """Evaluate Python's `max`: `tl.maximum` where an operand is a tensor."""
    return _extreme("max", max, tl.maximum, values, options)


def _extreme(name: str, constant: Any, elementwise: Any, values: tuple[Any, ...], options: dict[str, Any]) -> Any:
    values = tuple(map(unwrap, values))
    if len(values) < 2 or set(options) - {"propagate_nan"}:
        refuse(f"`{name}` of anything but two or more values", f"Name the values, or reduce a block with tl.{name}.")
    if not any(isinstance(value, tl.tensor) for value in values):
        return constant(values)
    return reduce(lambda left, right: elementwise(left, right, **options), values)


def integer(value: Any = 0, *rest: Any) -> int:
    """Evaluate Python's `int`, which takes only what is known at compile time."""
    return int(_constant("int", value), *map(unwrap, rest))


def floating(value: Any = 0.0) -> float:
    """Evaluate Python's `float`, which takes only what is known at compile time."""
    return float(_constant("float", value))


def _constant(name: str, value: Any) -> Any:
    value = unwrap(value)
    if isinstance(value, tl.tensor):
        refuse(f"`{name}()` of a tensor", "Convert it with .to(tl.int32), .to(tl.float32) or another type.")
    return value


def show(prefix: Any, *values: Any, **options: Any) -> None:
    """Evaluate Python's `print`, which is `tl.device_print` in a compiled kernel."""
    tl.device_print(prefix, *values, **options)


def items(value: Any) -> Any:
    """Return what a list comprehension runs over, which the compiler wants to be a tuple."""
    value = unwrap(value)
    if not isinstance(value, tuple | list | tl.tuple):
        refuse("a comprehension over anything but a tuple", "Loop with tl.static_range.")
    return value


def compiled_range(arg1: Any, arg2: Any = None, step: Any = None, *_: Any, **__: Any) -> range:
    """Replace `tl.range`, whose options (`num_stages` and its kin) change no result. The same bounds as Python's."""
    start, end = (0, arg1) if arg2 is None else (arg1, arg2)
    return _range(start, end, 1 if step is None else step)


def static_range(arg1: Any, arg2: Any = None, step: Any = None) -> range:
    """Replace `tl.static_range`, which the compiler unrolls.

    Raises:
        KernelFault: `unsupported_in_kernel`, for a bound that is no constant.
    """
    start, end = (0, arg1) if arg2 is None else (arg1, arg2)
    bounds = [unwrap(value) for value in (start, end, 1 if step is None else step)]
    if any(isinstance(bound, tl.tensor) for bound in bounds):
        refuse("tl.static_range over a bound that is known at run time only", "Use range, or a constexpr bound.")
    return range(*bounds)


def _range(start: Any, end: Any, step: Any) -> range:
    """Return the numbers of a compiled loop, which counts up unless its step is a negative constant.

    Raises:
        KernelFault: `unsupported_in_kernel`, for a negative step that is known at run time only.
    """
    bounds = [_bound(value) for value in (start, end, step)]
    if isinstance(unwrap(step), tl.tensor) and bounds[2] < 0:
        refuse(
            f"a loop with the step {bounds[2]}, known at run time only: the compiled loop counts up, and so it does not"
            " run backwards",
            "Make the step a constexpr, or count up and subtract.",
        )
    return range(*bounds)


def _bound(value: Any) -> int:
    value = unwrap(value)
    if not isinstance(value, tl.tensor):
        return int(value) if isinstance(value, int) else refuse(f"a loop bound of type {type(value).__name__}")
    data = value.handle.data
    if data.size != 1 or not value.dtype.is_int():
        refuse(f"a loop bound of type {value.type}", "Bounds and step of a loop are scalar integers.")
    return int(data.reshape(-1)[0])


def loop(function: Any, *bounds: Any, **options: Any) -> Iterable[Any]:
    """Yield what `for i in function(*bounds, **options)` yields; the integers of a `range` become scalar tensors.

    Raises:
        KernelFault: `unsupported_in_kernel`, for a loop over anything but a range.
    """
    if function is static_range:
        return static_range(*bounds, **options)
    if function is range:
        values = _range(*((0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]))
    elif function is compiled_range:
        values = compiled_range(*bounds, **options)
    else:
        refuse("a loop over anything but range, tl.range or tl.static_range")
    return _scalars(values, _common_type(values, bounds, options))


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
