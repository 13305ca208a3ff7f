"""Conditions of a kernel: what the compiler decides, what the kernel decides, and what neither can."""

from typing import Any, NoReturn

import triton.language as tl

from egg_graph.evaluator.interpreter.handles import to_float
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
        return truth_of_tensor(value)
    if type(value) not in CONDITIONS:
        refuse(f"a condition of type {type(value).__name__}", "Compare it, so that the condition is a boolean.")
    return bool(value)


def truth_of_tensor(value: Any) -> bool:
    """Decide a condition that the kernel computed: a tensor of one element.

    Raises:
        KernelFault: `unsupported_in_kernel`, for a block of several elements.
    """
    data = to_float(value.handle)
    if data.size != 1:
        refuse(
            f"the truth of a block of shape {list(data.shape)}, which is one answer for {data.size} elements",
            "Use tl.where or a mask for each element, or reduce the block to a scalar first.",
        )
    return bool(data.reshape(-1)[0] != 0)
