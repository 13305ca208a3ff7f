"""What Python's constructs mean in a compiled kernel: the functions that `compiled_syntax` puts in their place.

Triton's code generator (`triton.compiler.code_generator`) visits a kernel's syntax tree. What is known at compile time
keeps Python's meaning. On tensors, `and`, `or`, `not` are elementwise and evaluate all operands, Python's `min` and
`max` are `tl.minimum` and `tl.maximum`, and an assignment turns a number into a scalar tensor.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any, NoReturn

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from egg_graph.evaluator.interpreter.handles import make, numpy_dtype, to_float
from egg_graph.evaluator.interpreter.run_state import current_run, in_kernel
from egg_graph.evaluator.wire.faults import KernelFault

CONDITIONS = (bool, int, type(None))
"""Types of the conditions that the compiler decides itself."""


def refuse(what: str, cure: str = "Write it with triton.language.") -> NoReturn:
    """Refuse what the compiler has no meaning for.

    Raises:
        KernelFault: `unsupported_in_kernel`, with the candidate's line.
    """
    where = current_run().where() if in_kernel() else ""
    raise KernelFault("unsupported_in_kernel", f"{what}: Triton cannot compile it", where, cure)


def unwrap(value: Any) -> Any:
    """Return the value of a `tl.constexpr`, and anything else as it is."""
    return value.value if isinstance(value, tl.constexpr) else value


def truth(value: Any) -> bool:
    """Decide an `if`: a number that is known at compile time, or a tensor of one element.

    Raises:
        KernelFault: `unsupported_in_kernel`, for a block of several elements and for any other object.
    """
    value = unwrap(value)
    if isinstance(value, tl.tensor):
        return _truth_of_tensor(value)
    if type(value) not in CONDITIONS:
        refuse(f"a condition of type {type(value).__name__}", "Compare it, so that the condition is a boolean.")
    return bool(value)


def _truth_of_tensor(value: Any) -> bool:
    data = to_float(value.handle)
    if data.size != 1:
        refuse(
            f"the truth of a block of shape {list(data.shape)}, which is one answer for {data.size} elements",
            "Use tl.where or a mask for each element, or reduce the block to a scalar first.",
        )
    return bool(data.reshape(-1)[0] != 0)


def loop_goes_on(condition: Any) -> bool:
    """Decide a `while`, whose condition the compiled kernel evaluates before each iteration."""
    condition = getattr(condition, "condition", condition)  # tl.condition(…) only adds attributes to the loop
    if not isinstance(condition, tl.tensor):
        refuse("`while` on a condition that is known at compile time", "Let the condition depend on a tensor.")
    current_run().steps += 1
    return _truth_of_tensor(condition)


def ternary(condition: Any, chosen: Any) -> Any:
    """Return what `a if condition else b` chose; a number becomes a tensor where the condition is one."""
    return interpreter.interpreter_semantic.to_tensor(chosen) if isinstance(condition, tl.tensor) else chosen


def conjunction(*operands: Callable[[], Any]) -> Any:
    """Evaluate `a and b`: up to the first false constant; tensors are combined element by element."""
    return _combined(operands, ends=False, combine=interpreter.interpreter_semantic.logical_and)


def disjunction(*operands: Callable[[], Any]) -> Any:
    """Evaluate `a or b`: up to the first true constant; tensors are combined element by element."""
    return _combined(operands, ends=True, combine=interpreter.interpreter_semantic.logical_or)


def _combined(operands: tuple[Callable[[], Any], ...], *, ends: bool, combine: Callable[..., Any]) -> Any:
    tensors: list[Any] = []
    value: Any = None
    for operand in operands:
        value = unwrap(operand())
        if isinstance(value, tl.tensor):
            tensors.append(value)
        elif bool(value) is ends:
            return value
    return reduce(combine, tensors) if tensors else value


def negation(operand: Any) -> Any:
    """Evaluate `not a`, element by element for a tensor."""
    operand = unwrap(operand)
    if isinstance(operand, tl.tensor):
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


def compiled_range(arg1: Any, arg2: Any = None, step: Any = None, **_: Any) -> range:
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
