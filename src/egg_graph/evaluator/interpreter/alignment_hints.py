"""`tl.multiple_of` on pointers: a promise that the compiler believes, and loads whole vectors by.

A GPU ends in `misaligned address` where a vector does not begin at a multiple of its size; Triton's interpreter takes
no notice of the promise. Here it is checked where it is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl

from egg_graph.evaluator.interpreter.handles import numpy_dtype
from egg_graph.evaluator.interpreter.run_state import current_run
from egg_graph.evaluator.wire.faults import KernelFault

VECTOR = 16
"""Bytes of the widest vector that is loaded at once."""


def multiple_of(input: Any, values: Any, _semantic: Any = None) -> Any:
    """Replace `tl.multiple_of`: check what it says of pointers.

    Raises:
        KernelFault: `out_of_bounds`, for pointers that lie otherwise where neighbours make up vectors.
        ValueError: if there is not one value for each dimension.
    """
    promised = [v.value if isinstance(v, tl.constexpr) else v for v in _listed(values)]
    if len(promised) != max(1, len(input.shape)):
        raise ValueError("Shape of input to multiple_of does not match the length of values")
    if isinstance(input.type.scalar, tl.pointer_type):
        addresses = np.asarray(input.handle.data).astype(np.int64)
        itemsize = numpy_dtype(input.handle.get_element_ty()).itemsize
        for dimension, value in enumerate(promised if input.shape else []):
            _check(addresses, dimension, int(value), itemsize)
    return input


def _listed(values: Any) -> list[Any]:
    values = values.value if isinstance(values, tl.constexpr) else values
    return list(values) if isinstance(values, list | tuple | tl.tuple) else [values]


def _check(addresses: np.ndarray, dimension: int, promised: int, itemsize: int) -> None:
    """Check the beginnings of all runs of neighbours along a dimension; single elements make no vector."""
    promised = min(promised, VECTOR)
    along = np.moveaxis(addresses, dimension, -1)
    if promised <= itemsize or along.shape[-1] < 2:
        return
    joined = np.diff(along, axis=-1) == itemsize
    begins = np.ones(along.shape, bool)
    begins[..., 1:] = ~joined
    begins[..., :-1] &= joined  # followed by a neighbour
    begins[..., -1] = False
    wrong = begins & (along % promised != 0)
    if wrong.any():
        run = current_run()
        raise KernelFault(
            "out_of_bounds",
            f"tl.multiple_of promises pointers at multiples of {promised} bytes along dimension {dimension}, and a row "
            f"of them begins {int(along[wrong][0] % promised)} bytes behind one: the compiler loads vectors by it, and "
            "the GPU ends in `misaligned address`",
            run.where(),
            "Leave the hint out: the compiler finds alignment itself, from pointers and strides.",
        )


def install() -> None:
    """Replace the hint, after Triton has patched the language for its interpreter."""
    for module in (tl, tl.core):
        module.multiple_of = multiple_of
