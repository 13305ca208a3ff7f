"""Tensor descriptors (TMA): loads outside of the described tensor give the padding, stores outside are dropped.

Triton's own operators read and write raw addresses. These go through the checked operators of `memory_ops`. A fake run
makes no addresses; it checks the last element of each clipped block.
"""

from typing import Any

import numpy as np
from triton._C.libtriton import ir
from triton.runtime.interpreter import InterpreterBuilder

from egg_graph.evaluator.interpreter import memory_ops, number_formats
from egg_graph.evaluator.interpreter.address_space import WINDOW_BITS
from egg_graph.evaluator.interpreter.bounds_check import count_bytes, note_touched
from egg_graph.evaluator.interpreter.handles import make, numpy_dtype, repeated
from egg_graph.evaluator.interpreter.run_state import current_run
from egg_graph.evaluator.wire.faults import KernelFault


def load(self: Any, descriptor: Any, indices: list[Any], cache_modifier: Any, eviction_policy: Any) -> Any:
    """Replace `create_descriptor_load`; add bfloat16 padding and rounding to TF32, which the original lacks."""
    element = descriptor.base.dtype.element_ty
    dtype = numpy_dtype(element)
    if current_run().fake:
        _count_clipped(descriptor, indices, dtype.itemsize, "load")
        return make(memory_ops.fake_values(current_run(), None, tuple(descriptor.block_shape), dtype), element)
    pointers, mask = _materialize(descriptor, indices)
    padding = np.zeros((), dtype)
    if descriptor.padding == ir.PADDING_OPTION.PAD_NAN:
        padding = np.array(np.nan, dtype) if dtype.kind == "f" else np.array(0x7FC0, dtype)
    other = make(repeated(padding, pointers.data.shape), element)
    block = memory_ops.load(self, pointers, make(mask, pointers.dtype), other)
    if getattr(descriptor, "round_to_tf32", False):
        block = make(number_formats.round_to_tf32(block.data), element)
    return block


def store(self: Any, descriptor: Any, value: Any, indices: list[Any]) -> None:
    """Replace `create_descriptor_store`."""
    if current_run().fake:
        itemsize = numpy_dtype(descriptor.base.dtype.element_ty).itemsize
        _count_clipped(descriptor, indices, itemsize, "store")
        return
    pointers, mask = _materialize(descriptor, indices)
    memory_ops.store(self, pointers, value, make(mask, pointers.dtype))


def reduce(self: Any, kind: Any, descriptor: Any, value: Any, indices: list[Any]) -> None:
    """Add `create_descriptor_reduce`, the operator of `descriptor.atomic_add([...], value)` and its kin."""
    name = str(kind).rsplit(".", 1)[-1]
    operation = {"ADD": "FADD"}.get(name, name) if value.data.dtype.kind == "f" else name
    pointers, mask = _materialize(descriptor, indices)
    relaxed = ir.MEM_SEMANTIC.RELAXED
    memory_ops.atomic_rmw(
        self, getattr(ir.ATOMIC_OP, operation), pointers, value, make(mask, pointers.dtype), relaxed, None
    )


def _materialize(descriptor: Any, indices: list[Any]) -> tuple[Any, np.ndarray]:
    _check_alignment(descriptor, indices)
    return descriptor.materialize_pointers(indices)


def _check_alignment(descriptor: Any, indices: list[Any]) -> None:
    """Refuse a block that does not start at a multiple of 16 bytes in the last dimension, as TMA demands.

    Raises:
        KernelFault: `unsupported_in_kernel`.
    """
    itemsize = numpy_dtype(descriptor.base.dtype.element_ty).itemsize
    start = int(indices[-1].data.reshape(-1)[0])
    if start * itemsize % 16:
        raise KernelFault(
            "unsupported_in_kernel",
            f"a tensor descriptor block starts at element {start} of its last dimension, not at a multiple of 16 bytes",
            current_run().where(),
            "Start blocks at multiples of 16 bytes in the last dimension, or load through pointers.",
        )


def _count_clipped(descriptor: Any, indices: list[Any], itemsize: int, verb: str) -> None:
    """Check and count the part of a block that lies inside of the described tensor (fake run).

    Raises:
        KernelFault: `out_of_bounds` where the described shape is larger than the memory behind it.
    """
    run = current_run()
    _check_alignment(descriptor, indices)
    elements, last = 1, 0
    for index, block, size, stride in zip(
        indices, descriptor.block_shape, descriptor.shape, descriptor.strides, strict=True
    ):
        start = int(index.data.reshape(-1)[0])
        stop = min(start + int(block), int(size.data.reshape(-1)[0]))
        elements *= max(0, stop - max(0, start))
        last += max(0, stop - 1) * int(stride.data.reshape(-1)[0])
    if elements == 0:
        return
    base = int(descriptor.base.data.reshape(-1)[0])
    region = run.memory.regions[base >> WINDOW_BITS]
    end = base - region.base + (last + 1) * itemsize
    if end > region.nbytes:
        assert run.launch is not None
        raise KernelFault(
            "out_of_bounds",
            f"descriptor {verb} outside of argument '{region.name}': byte {end} of {region.nbytes}",
            run.where(f"argument '{region.name}'", f"program {run.launch.program}"),
            "Give the descriptor the tensor's own shape and strides.",
        )
    count_bytes(run, region, elements * itemsize, verb)
    note_touched(region, 0, region.nbytes)  # at most


def install(builder: type[InterpreterBuilder]) -> None:
    """Replace the builder's descriptor operators."""
    builder.create_descriptor_load, builder.create_descriptor_store = load, store
    builder.create_descriptor_reduce = reduce
