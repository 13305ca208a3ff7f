"""Loads, stores and atomics of the builder, guarded."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import interpreter as native
from triton.runtime.interpreter import InterpreterBuilder

from egg_graph.evaluator.interpreter import number_formats, overflow, races
from egg_graph.evaluator.interpreter.bounds_check import Access, check_access
from egg_graph.evaluator.interpreter.handles import make, numpy_dtype, to_float
from egg_graph.evaluator.interpreter.run_state import Session, current, threads_meet
from egg_graph.evaluator.wire.faults import KernelFault


def guarded(pointers: Any, mask: np.ndarray, itemsize: int, verb: str) -> tuple[Session, Access]:
    """Check one access of the launch under way."""
    session = current()
    overflow.refuse_wrapped(pointers, mask, verb)
    return session, check_access(session, pointers.data, mask, itemsize, verb)


def load(self: Any, pointers: Any, mask: Any, other: Any, *rest: Any, **options: Any) -> Any:
    """`tl.load`. Lanes that are masked off without `other` are undefined on a GPU: they get poison."""
    element = pointers.get_element_ty()
    dtype = numpy_dtype(element)
    session, access = guarded(pointers, mask.data, dtype.itemsize, "load")
    shape = pointers.data.shape
    if session.fake:
        return make(fake_values(session, access, shape, dtype), element)
    if access.region is not None:
        races.note_load(session, access, dtype.itemsize)
    if other is None:
        complete = access.active == pointers.data.size
        rest_value = np.zeros(shape, dtype) if complete else _undefined(shape, dtype, element)
    else:
        rest_value = np.broadcast_to(other.data, shape)
    loaded = make(native.load(*_contiguous(access.addresses, access.mask, rest_value), dtype), element)
    if session.launch is not None and not session.launch.computes and not isinstance(element, tl.pointer_type):
        session.launch.loaded.append(to_float(loaded)[access.mask])
    return loaded


def fake_values(session: Session, access: Access | None, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """What a load gives where there are no values: zeros, small random numbers, or the greatest integers there are."""
    known = session.greatest.get(access.region.storage._cdata) if access is not None and access.region else None
    if known is not None:
        return np.broadcast_to(np.asarray(known).astype(dtype), shape)
    if session.fill is None:
        return np.broadcast_to(np.zeros((), dtype), shape)
    return np.asarray(session.fill.integers(0, 8, shape)).astype(dtype)


def store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **options: Any) -> None:
    """`tl.store`."""
    itemsize = numpy_dtype(pointers.get_element_ty()).itemsize
    session, access = guarded(pointers, mask.data, itemsize, "store")
    if session.fake or access.active == 0:
        return
    values = np.broadcast_to(value.data, pointers.data.shape)
    _note_computed(session, value, access)
    addresses, active, values = _contiguous(access.addresses, access.mask, values)
    if access.region is None:
        native.store(addresses, values, active)
        return
    lanes = _bits(values)[active]
    before = _bits(native.load(addresses, active, np.zeros_like(values), values.dtype))[active]
    races.note_store(session, access, itemsize, before != lanes)
    native.store(addresses, values, active)
    _note_written(session, access, itemsize)
    after = _bits(native.load(addresses, active, np.zeros_like(values), values.dtype))[active]
    if (after != lanes).any():
        races.note_lanes_conflict(session, access.region)


def atomic_rmw(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, sem: Any, scope: Any) -> Any:
    """`tl.atomic_add` and its kin."""
    element = pointers.get_element_ty()
    dtype = numpy_dtype(element)
    session, access = guarded(pointers, mask.data, dtype.itemsize, "atomic")
    assert session.launch is not None
    session.launch.atomics += access.active
    session.launch.computes = True
    if session.fake:
        return make(np.broadcast_to(np.zeros((), dtype), pointers.data.shape), value.dtype.scalar)
    if access.active and access.region is not None:
        races.note_atomic(session, access, dtype.itemsize)
        _note_written(session, access, dtype.itemsize)
    values = np.broadcast_to(value.data, pointers.data.shape)
    if str(element) == "bf16":
        return make(_atomic_bfloat16(operation, access, values), value.dtype.scalar)
    addresses, active, values = _contiguous(access.addresses, access.mask, values)
    kind, order = self.ir_rmw_op_to_interpreter_rmw_op[operation], self.ir_sem_to_interpreter_sem[sem]
    before = native.atomic_rmw(kind, addresses, values, active, order)
    if access.active < active.size:
        before = np.where(active, before, _undefined(active.shape, before.dtype, element))
    return make(before, value.dtype.scalar)


def _atomic_bfloat16(operation: Any, access: Access, values: np.ndarray) -> np.ndarray:
    """Atomic addition on bfloat16, lane by lane: the interpreter's own has no such type."""
    if not str(operation).endswith("ADD"):
        raise KernelFault(
            "unsupported_in_kernel",
            f"the interpreter knows no bfloat16 atomic {operation}",
            current().where(),
            "Accumulate in float32.",
        )
    before = np.zeros(values.shape, np.uint16)
    for lane in zip(*np.nonzero(access.mask), strict=True):
        address = np.array([access.addresses[lane]], np.uint64)
        yes = np.ones(1, bool)
        old = native.load(address, yes, np.zeros(1, np.uint16), np.dtype(np.uint16))
        total = number_formats.bfloat16_to_float32(old) + number_formats.bfloat16_to_float32(values[lane].reshape(1))
        native.store(address, number_formats.float32_to_bfloat16(total), yes)
        before[lane] = old[0]
    return before


def atomic_cas(self: Any, pointers: Any, expected: Any, value: Any, sem: Any, scope: Any) -> Any:
    """`tl.atomic_cas`."""
    dtype = numpy_dtype(pointers.get_element_ty())
    everywhere = np.ones(pointers.data.shape, bool)
    session, access = guarded(pointers, everywhere, dtype.itemsize, "atomic")
    assert session.launch is not None
    session.launch.atomics += access.active
    if session.fake:
        return make(np.broadcast_to(expected.data, pointers.data.shape), expected.dtype.scalar)
    if access.region is not None:
        races.note_atomic(session, access, dtype.itemsize)
        _note_written(session, access, dtype.itemsize)
    operands = [np.broadcast_to(x.data, pointers.data.shape) for x in (expected, value)]
    addresses, wanted, new = _contiguous(access.addresses, *operands)
    return make(native.atomic_cas(addresses, wanted, new, self.ir_sem_to_interpreter_sem[sem]), expected.dtype.scalar)


def _note_computed(session: Session, value: Any, access: Access) -> None:
    """Whether a store holds a number, beside 0, 1 and what is not finite, that its program has not loaded. Integers,
    and numbers of few distinct values, are found among others by chance: they count as computed."""
    launch = session.launch
    if launch is None or launch.computes:
        return
    values = np.broadcast_to(to_float(value), access.mask.shape)[access.mask]
    values = values[np.isfinite(values) & (values != 0) & (values != 1)]
    known = np.concatenate([np.ravel(x) for x in launch.loaded]) if launch.loaded else np.zeros(0)
    known = known[known != 0]
    cannot_tell = values.dtype.kind != "f" or 2 * np.unique(known).size < known.size
    if values.size and (cannot_tell or not np.isin(values, known).all()):
        launch.computes, launch.loaded = True, []


def _note_written(session: Session, access: Access, itemsize: int) -> None:
    """Remember which elements of a storage from `torch.empty` a kernel wrote."""
    assert access.region is not None
    written = session.memory.written.get(access.region.storage._cdata)
    if written is None or written.nbytes != access.region.nbytes:
        return
    granule = written.nbytes // written.elements.size
    offsets = access.offsets.astype(np.int64)[access.mask]
    for start in range(0, max(itemsize, 1), granule):
        written.elements[(offsets + start) // granule] = True


def _bits(values: np.ndarray) -> np.ndarray:
    """Values as integers, so that NaN equals itself."""
    return values.view(f"uint{8 * values.dtype.itemsize}")


def _contiguous(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(np.ascontiguousarray(x) for x in arrays)


def _undefined(shape: tuple[int, ...], dtype: Any, element: Any) -> np.ndarray:
    if number_formats.is_float8(str(element)):
        return np.full(shape, 0x7F, np.uint8)
    return number_formats.undefined(shape, dtype, bfloat16=str(element) == "bf16")


def print_values(self: Any, prefix: str, hexadecimal: bool, values: Any, is_signed: Any) -> None:
    """`tl.device_print`, with real numbers for bfloat16; silent in a fake run."""
    session = current()
    assert session.launch is not None
    if not session.fake:
        for value in values:
            print(session.launch.program, prefix, to_float(value))


def barrier(self: Any) -> None:
    """`tl.debug_barrier`."""
    threads_meet()


def meeting(operator: Callable[..., Any]) -> Callable[..., Any]:
    """An operator that goes through shared memory."""

    @wraps(operator)
    def method(*args: Any) -> Any:
        threads_meet()
        return operator(*args)

    return method


def install(builder: type[InterpreterBuilder]) -> None:
    """Replace the builder's memory operators."""
    builder.create_masked_load, builder.create_masked_store = load, store
    builder.create_atomic_rmw, builder.create_atomic_cas = atomic_rmw, atomic_cas
    builder.create_gather, builder.create_histogram = meeting(builder.create_gather), meeting(builder.create_histogram)
    builder.create_print, builder.create_barrier = print_values, barrier
