"""int32 overflow: index arithmetic that wraps around is followed to the address that it spoils.

Each integer handle has a value range, measured once or computed by interval arithmetic. Where the range of a result
leaves int32, the result is compared with exact arithmetic, and lanes that wrapped are marked. A load or store through a
marked pointer is a fault. Hashes and random numbers may wrap: marks do not survive `%`, `&`, shifts or `^`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from egg_graph.evaluator.interpreter.run_state import current_run
from egg_graph.evaluator.wire.faults import KernelFault

INT32 = np.iinfo(np.int32)
RANGE, WRAPPED = "egg.range", "egg.wrapped"
"""Keys of a handle's attributes: smallest and largest value, and which lanes wrapped."""


def value_range(handle: Any) -> tuple[int, int]:
    """Return the smallest and largest value of an integer handle, or bounds of them; remember it on the handle."""
    known = handle.attr.get(RANGE)
    if known is None:
        data = handle.data
        if data.size > 1 and not any(data.strides):
            data = data[(0,) * data.ndim]
        known = handle.attr[RANGE] = (int(data.min()), int(data.max())) if data.size else (0, 0)
    return known


def result_range(name: str, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    """Apply interval arithmetic for `add`, `sub` or `mul`."""
    if name == "add":
        return left[0] + right[0], left[1] + right[1]
    if name == "sub":
        return left[0] - right[1], left[1] - right[0]
    corners = [x * y for x in left for y in right]
    return min(corners), max(corners)


def track(name: str, operation: Callable[..., np.ndarray], lhs: Any, rhs: Any, result: Any) -> None:
    """Mark the lanes of an int32 result that wrapped, and pass on the marks of its operands.

    Args:
        name: `add`, `sub` or `mul`.
        operation: the same as a numpy function.
        lhs: left operand.
        rhs: right operand.
        result: what the operation gave; its attributes are changed.
    """
    if result.data.dtype != np.int32:
        return
    low, high = result_range(name, value_range(lhs), value_range(rhs))
    wrapped = _union(lhs.attr.get(WRAPPED), rhs.attr.get(WRAPPED))
    if low >= INT32.min and high <= INT32.max:
        result.attr[RANGE] = (low, high)
    else:
        exact = operation(lhs.data.astype(np.int64), rhs.data.astype(np.int64))
        lanes = exact != result.data
        if lanes.any():
            run = current_run()
            if run.launch is not None:
                run.launch.wrapped_line = run.candidate_line()
            wrapped = _union(wrapped, lanes)
    if wrapped is not None:
        result.attr[WRAPPED] = wrapped


def track_pointer(pointer: Any, offset: Any, result: Any) -> None:
    """Pass on the marks of a pointer and of the offset that is added to it."""
    wrapped = _union(pointer.attr.get(WRAPPED), offset.attr.get(WRAPPED))
    if wrapped is not None:
        result.attr[WRAPPED] = np.broadcast_to(wrapped, result.data.shape)


def _union(left: np.ndarray | None, right: np.ndarray | None) -> np.ndarray | None:
    if left is None or right is None:
        return right if left is None else left
    return left | right


def pass_on(source: Any, result: Any, reshape: Callable[[np.ndarray], np.ndarray]) -> None:
    """Copy range and marks of `source` to a `result` that only moves or repeats its elements."""
    if not source.attr:
        return
    if RANGE in source.attr:
        result.attr[RANGE] = source.attr[RANGE]
    if WRAPPED in source.attr:
        result.attr[WRAPPED] = reshape(source.attr[WRAPPED])


def refuse_wrapped(pointers: Any, mask: np.ndarray, verb: str) -> None:
    """Refuse an access whose address was computed, in an active lane, with an int32 that wrapped.

    Raises:
        KernelFault: `out_of_bounds`, naming the line that wrapped.
    """
    wrapped = pointers.attr.get(WRAPPED)
    if wrapped is None or not (np.broadcast_to(wrapped, pointers.data.shape) & mask).any():
        return
    run = current_run()
    assert run.launch is not None
    raise KernelFault(
        "out_of_bounds",
        f"{verb} at an index that exceeds 2**31 - 1 but was computed in int32 (line {run.launch.wrapped_line})",
        run.where(f"program {run.launch.program}"),
        "Compute the offset in 64 bits: cast before multiplying, e.g. tl.program_id(0).to(tl.int64).",
    )
