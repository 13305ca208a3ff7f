"""int32 index arithmetic that wraps around: followed from the operation to the address that it spoils.

An operand's range is known or measured once; only where the range of a result leaves int32 is the result compared
with exact arithmetic. Lanes that did wrap carry a mark, and a load or store through a marked pointer is a fault.
Hashes and random numbers may wrap: marks do not survive `%`, `&`, shifts or `^`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from egg_graph.evaluator.interpreter.run_state import current
from egg_graph.evaluator.wire.faults import KernelFault

INT32 = np.iinfo(np.int32)
SPAN, WRAPPED = "egg.span", "egg.wrapped"


def span(handle: Any) -> tuple[int, int]:
    """Smallest and largest value (or bounds of them) of an integer handle; remembered on the handle."""
    known = handle.attr.get(SPAN)
    if known is None:
        data = handle.data
        if data.size > 1 and not any(data.strides):
            data = data[(0,) * data.ndim]
        known = handle.attr[SPAN] = (int(data.min()), int(data.max())) if data.size else (0, 0)
    return known


def result_span(name: str, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    """Interval arithmetic of `add`, `sub` and `mul`."""
    if name == "add":
        return left[0] + right[0], left[1] + right[1]
    if name == "sub":
        return left[0] - right[1], left[1] - right[0]
    corners = [x * y for x in left for y in right]
    return min(corners), max(corners)


def follow(name: str, operation: Callable[..., np.ndarray], lhs: Any, rhs: Any, result: Any) -> None:
    """Mark the lanes of an int32 result that wrapped, and hand on the marks of its operands."""
    if result.data.dtype != np.int32:
        return
    low, high = result_span(name, span(lhs), span(rhs))
    wrapped = _either(lhs.attr.get(WRAPPED), rhs.attr.get(WRAPPED))
    if low >= INT32.min and high <= INT32.max:
        result.attr[SPAN] = (low, high)
    else:
        exact = operation(lhs.data.astype(np.int64), rhs.data.astype(np.int64))
        lanes = exact != result.data
        if lanes.any():
            session = current()
            if session.launch is not None:
                session.launch.wrapped_at = session.candidate_line()
            wrapped = _either(wrapped, lanes)
    if wrapped is not None:
        result.attr[WRAPPED] = wrapped


def _either(left: np.ndarray | None, right: np.ndarray | None) -> np.ndarray | None:
    if left is None or right is None:
        return right if left is None else left
    return left | right


def hand_on(source: Any, result: Any, reshape: Callable[[np.ndarray], np.ndarray]) -> None:
    """Keep what is known of `source` on a `result` that only moves or repeats its elements."""
    if not source.attr:
        return
    if SPAN in source.attr:
        result.attr[SPAN] = source.attr[SPAN]
    if WRAPPED in source.attr:
        result.attr[WRAPPED] = reshape(source.attr[WRAPPED])


def refuse_wrapped(pointers: Any, mask: np.ndarray, verb: str) -> None:
    """Fault if an active lane's address was computed with an int32 that wrapped.

    Raises:
        KernelFault: `out_of_bounds`, naming the line that wrapped.
    """
    wrapped = pointers.attr.get(WRAPPED)
    if wrapped is None or not (np.broadcast_to(wrapped, pointers.data.shape) & mask).any():
        return
    session = current()
    assert session.launch is not None
    raise KernelFault(
        "out_of_bounds",
        f"{verb} at an index that exceeds 2**31 - 1 but was computed in int32 (line {session.launch.wrapped_at})",
        session.where(f"program {session.launch.program}"),
        "Compute the offset in 64 bits: cast before multiplying, e.g. tl.program_id(0).to(tl.int64).",
    )
