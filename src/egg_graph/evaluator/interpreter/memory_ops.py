"""Memory operators of the interpreter's builder: loads, stores, atomics and barriers.

Triton's own read and write raw addresses. These check bounds and races first, count bytes, record which elements are
written, and give undefined values where a GPU does. In a fake run they only check and count.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import interpreter as native
from triton.runtime.interpreter import InterpreterBuilder

from egg_graph.evaluator.interpreter import number_formats, overflow, races
from egg_graph.evaluator.interpreter.bounds_check import Access, check_bounds
from egg_graph.evaluator.interpreter.handles import make, numpy_dtype, repeated, to_float
from egg_graph.evaluator.interpreter.poison import undefined
from egg_graph.evaluator.interpreter.run_state import RunState, current_run, synchronise_threads
from egg_graph.evaluator.wire.faults import KernelFault


def load(self: Any, pointers: Any, mask: Any, other: Any, *rest: Any, **options: Any) -> Any:
    """Replace `create_masked_load`. Lanes masked off without `other` are undefined on a GPU, so they get poison.

    Triton's own gives them zeros, and so does a run with `zero_lanes`.
    """
    element = pointers.get_element_ty()
    dtype = numpy_dtype(element)
    run, access = _checked(pointers, mask.data, dtype.itemsize, "load")
    shape = pointers.data.shape
    if run.fake:
        values = fake_values(run, access, shape, dtype)
        if other is not None and dtype.kind in "iu":  # an index that is masked off may say so by its value
            values = np.where(mask.data, values, repeated(other.data, shape).astype(dtype))
        return make(values, element)
    if access.region is not None:
        races.check_load(run, access, dtype.itemsize)
    if other is None:
        complete = access.active == pointers.data.size
        if not complete:
            run.undefined_loads.add(run.where())
        defined = complete or run.zero_lanes
        rest_value = np.zeros(shape, dtype) if defined else undefined(shape, dtype, str(element))
    else:
        rest_value = repeated(other.data, shape)
    loaded = make(native.load(*_contiguous(access.addresses, access.mask, rest_value), dtype), element)
    if run.launch is not None and not run.launch.computes and not isinstance(element, tl.pointer_type):
        run.launch.loaded_values.append(to_float(loaded)[access.mask])
    return loaded


def fake_values(run: RunState, access: Access | None, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Make the values of a load in a fake run: zeros, small random integers, or what is known of the input."""
    known = run.known_by_storage.get(access.region.storage._cdata) if access is not None and access.region else None
    if known is not None and access is not None:
        if known.size == 1:
            return repeated(known.astype(dtype), shape)
        places = np.clip(access.offsets.astype(np.int64) // dtype.itemsize, 0, known.size - 1)  # of inactive lanes, too
        return known[places].astype(dtype)
    if run.launch is not None and np.dtype(dtype).kind in "iu":
        run.launch.unknown_integers = True
    if run.load_rng is None:
        return repeated(np.zeros((), dtype), shape)
    return np.asarray(run.load_rng.integers(0, 8, shape)).astype(dtype)


def store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **options: Any) -> None:
    """Replace `create_masked_store`; read memory before and after.

    Before shows which elements the store changes, after whether two lanes wrote different values to one element.
    """
    itemsize = numpy_dtype(pointers.get_element_ty()).itemsize
    run, access = _checked(pointers, mask.data, itemsize, "store")
    if run.fake or access.active == 0:
        return
    values = repeated(value.data, pointers.data.shape)
    _note_computed(run, value, access)
    assert run.launch is not None
    addresses, active, values = _contiguous(access.addresses, access.mask, values)
    if access.region is None:
        run.launch.memory_changes += 1
        native.store(addresses, values, active)
        return
    lanes = _bits(values)[active]
    before = _bits(native.load(addresses, active, np.zeros_like(values), values.dtype))[active]
    changed = before != lanes
    run.launch.memory_changes += bool(changed.any())
    races.check_store(run, access, itemsize, changed)
    native.store(addresses, values, active)
    _note_written(run, access, itemsize)
    after = _bits(native.load(addresses, active, np.zeros_like(values), values.dtype))[active]
    if (after != lanes).any():
        races.report_lane_conflict(run, access)


def atomic_rmw(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, sem: Any, scope: Any) -> Any:
    """Replace `create_atomic_rmw`, the operator of `tl.atomic_add` and its kin. Masked-off lanes return poison."""
    element = pointers.get_element_ty()
    dtype = numpy_dtype(element)
    run, access = _checked(pointers, mask.data, dtype.itemsize, "atomic")
    assert run.launch is not None
    run.launch.atomics += access.active
    run.launch.computes = True
    if run.fake:
        return make(repeated(np.zeros((), dtype), pointers.data.shape), value.dtype.scalar)
    _record_atomic(run, access, dtype.itemsize)
    values = repeated(value.data, pointers.data.shape)
    if str(element) == "bf16":
        run.launch.memory_changes += 1
        return make(_atomic_bfloat16(operation, access, values), value.dtype.scalar)
    addresses, active, values = _contiguous(access.addresses, access.mask, values)
    kind, order = self.ir_rmw_op_to_interpreter_rmw_op[operation], self.ir_sem_to_interpreter_sem[sem]
    exchanged = _bits(values) if str(operation).endswith("XCHG") else values  # the original exchanges integers only
    before = native.atomic_rmw(kind, addresses, exchanged, active, order).view(values.dtype)
    after = native.load(addresses, active, np.zeros_like(before), before.dtype)
    run.launch.memory_changes += bool((_bits(after) != _bits(before))[active].any())
    if access.active < active.size:
        before = np.where(active, before, undefined(active.shape, before.dtype, str(element)))
    return make(before, value.dtype.scalar)


def _atomic_bfloat16(operation: Any, access: Access, values: np.ndarray) -> np.ndarray:
    """Add bfloat16 atomically, lane by lane; Triton's interpreter has no atomics of this type.

    Raises:
        KernelFault: `unsupported_in_kernel`, for any operation but addition.
    """
    if not str(operation).endswith("ADD"):
        raise KernelFault(
            "unsupported_in_kernel",
            f"the interpreter knows no bfloat16 atomic {operation}",
            current_run().where(),
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
    """Replace `create_atomic_cas`. In a fake run every comparison succeeds, so that spin locks end."""
    dtype = numpy_dtype(pointers.get_element_ty())
    everywhere = np.ones(pointers.data.shape, bool)
    run, access = _checked(pointers, everywhere, dtype.itemsize, "atomic")
    assert run.launch is not None
    run.launch.atomics += access.active
    if run.fake:
        return make(repeated(expected.data, pointers.data.shape), expected.dtype.scalar)
    _record_atomic(run, access, dtype.itemsize)
    operands = [repeated(x.data, pointers.data.shape) for x in (expected, value)]
    addresses, wanted, new = _contiguous(access.addresses, *operands)
    order = self.ir_sem_to_interpreter_sem[sem]
    before = native.atomic_cas(addresses, _bits(wanted), _bits(new), order).view(wanted.dtype)
    run.launch.memory_changes += bool(((_bits(before) == _bits(wanted)) & (_bits(new) != _bits(wanted))).any())
    return make(before, expected.dtype.scalar)


def _checked(pointers: Any, mask: np.ndarray, itemsize: int, verb: str) -> tuple[RunState, Access]:
    """Check one access for int32 overflow and bounds; return it with the current run."""
    run = current_run()
    overflow.refuse_wrapped(pointers, mask, verb)
    return run, check_bounds(run, pointers.data, mask, itemsize, verb)


def _record_atomic(run: RunState, access: Access, itemsize: int) -> None:
    if access.region is not None:
        races.check_atomic(run, access, itemsize)
        _note_written(run, access, itemsize)


def _note_computed(run: RunState, value: Any, access: Access) -> None:
    """Note whether a store holds a computed number: finite, neither 0 nor 1, and not loaded by its program.

    Integers, and floats of few distinct values, may equal a loaded number by chance; they count as computed.
    """
    launch = run.launch
    if launch is None or launch.computes:
        return
    values = repeated(to_float(value), access.mask.shape)[access.mask]
    values = values[np.isfinite(values) & (values != 0) & (values != 1)]
    known = np.concatenate([np.ravel(x) for x in launch.loaded_values]) if launch.loaded_values else np.zeros(0)
    known = known[known != 0]
    cannot_tell = values.dtype.kind != "f" or 2 * np.unique(known).size < known.size
    if values.size and (cannot_tell or not np.isin(values, known).all()):
        launch.computes, launch.loaded_values = True, []


def _note_written(run: RunState, access: Access, itemsize: int) -> None:
    """Mark the elements of a storage from `torch.empty` that an access wrote."""
    assert access.region is not None
    written = run.memory.written.get(access.region.storage._cdata)
    if written is None or written.nbytes != access.region.nbytes:
        return
    granule = written.nbytes // written.elements.size
    offsets = access.offsets.astype(np.int64)[access.mask]
    for start in range(0, max(itemsize, 1), granule):
        written.elements[(offsets + start) // granule] = True


def _bits(values: np.ndarray) -> np.ndarray:
    """View values as integers, so that NaN equals itself."""
    return values.view(f"uint{8 * values.dtype.itemsize}")


def _contiguous(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(np.ascontiguousarray(x) for x in arrays)


def print_values(self: Any, prefix: str, hexadecimal: bool, values: Any, is_signed: Any) -> None:
    """Replace `create_print` (`tl.device_print`): show bfloat16 as numbers; print nothing in a fake run."""
    run = current_run()
    assert run.launch is not None
    if not run.fake:
        for value in values:
            print(run.launch.program, prefix, to_float(value))


def barrier(self: Any) -> None:
    """Replace `create_barrier`, the operator of `tl.debug_barrier`, which does nothing in Triton's interpreter."""
    synchronise_threads()


def synchronising(operator: Callable[..., Any]) -> Callable[..., Any]:
    """Make an operator record the barrier that it has on a GPU, because it goes through shared memory."""

    @wraps(operator)
    def method(*args: Any) -> Any:
        synchronise_threads()
        return operator(*args)

    return method


def install(builder: type[InterpreterBuilder]) -> None:
    """Replace the builder's memory operators."""
    builder.create_masked_load, builder.create_masked_store = load, store
    builder.create_atomic_rmw, builder.create_atomic_cas = atomic_rmw, atomic_cas
    builder.create_gather = synchronising(builder.create_gather)
    builder.create_histogram = synchronising(builder.create_histogram)
    builder.create_print, builder.create_barrier = print_values, barrier
