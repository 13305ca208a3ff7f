"""ATen operators that a forward runs beside its kernels: what they move and compute, and which made the answer."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.interpreter.address_space import AddressSpace, distinct_bytes
from egg_graph.evaluator.interpreter.arguments import describe
from egg_graph.evaluator.interpreter.run_state import in_kernel
from egg_graph.evaluator.wire.launches import LibraryCall
from egg_graph.evaluator.wire.operators import COPIES, as_it_lies, computing
from egg_graph.evaluator.wire.product_flops import product_flops

NO_WORK = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted", "lift_fresh",
           "set_", "resize_", "sym_size", "sym_stride", "sym_numel", "is_same_size", "record_stream"}  # fmt: skip
"""Operators that launch nothing on the device."""
MIN_ELEMENTS = 8
"""Smallest result whose provenance is tracked: smaller ones may be equal by chance."""
Fingerprint = tuple[torch.dtype, int, int]
"""Dtype, number of elements and CRC-32 of a tensor's bytes."""


class Provenance:
    """Tracks which results library operators computed in one forward from nothing that a kernel wrote.

    If such a result is the answer, the candidate's kernels only copied it, whatever else they compute. So the
    fingerprint of every result is kept, unless it depends on memory that a kernel wrote.

    Args:
        memory: the address space that kernels write to; its record of earlier forwards is cleared.
        given: inputs, parameters and buffers.
    """

    def __init__(self, memory: AddressSpace, given: Sequence[Any] = ()) -> None:
        self.memory = memory
        self.given = given
        memory.stored.clear()
        self.computed: dict[int, Any] = {}
        """Storage key -> storage with a result of library operators alone; kept alive so that no key is used twice."""
        self.mixed: dict[int, Any] = {}
        """Storage key -> storage with a result that depends on what kernels wrote."""
        self.known: dict[Fingerprint, str] = {}
        """Fingerprint of a result of library operators alone -> the operator that made it."""
        self.lying: set[Fingerprint] = set()
        """Fingerprints of the same results, their elements in the order in which they lie in memory."""
        self.copied = False
        """Whether an operator was handed a kernel's plain copy of what was given, or of what operators had computed."""

    def note(self, name: str, operands: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
        """Record one operator that computed or moved numbers."""
        read = operands[1:] if name == "copy_" else operands  # the target is written, not read
        storages = [x.untyped_storage() for x in read if x.layout is torch.strided]
        from_kernels = any(s._cdata in self.memory.stored or s._cdata in self.mixed for s in storages)
        self.copied = self.copied or any(map(self._is_copy, read))
        own = bool(storages) and (name not in COPIES or any(s._cdata in self.computed for s in storages))
        for result in results:
            if result.layout is not torch.strided:
                continue
            storage = result.untyped_storage()
            self.mixed.pop(storage._cdata, None)
            self.computed.pop(storage._cdata, None)
            if from_kernels:
                self.mixed[storage._cdata] = storage
            elif own:
                self.computed[storage._cdata] = storage
                if result.numel() >= MIN_ELEMENTS:
                    self.known.setdefault(_fingerprint(result), name)
                    self.lying.add(_fingerprint(as_it_lies(result)))

    def _is_copy(self, x: torch.Tensor) -> bool:
        """Whether a kernel wrote a tensor, and its elements lie in memory as those of one that no kernel wrote."""
        if x.layout is not torch.strided or x.numel() < MIN_ELEMENTS:
            return False
        if x.untyped_storage()._cdata not in self.memory.stored:
            return False
        fingerprint = _fingerprint(as_it_lies(x))
        return fingerprint in self.lying or fingerprint in self._of_given

    @cached_property
    def _of_given(self) -> set[Fingerprint]:
        tensors = (x for x in tree_leaves(self.given) if isinstance(x, torch.Tensor) and x.layout is torch.strided)
        return {_fingerprint(as_it_lies(x)) for x in tensors if x.untyped_storage()._cdata not in self.memory.stored}

    def maker(self, output: Any) -> str:
        """Name the operator that computed an answer alone; empty unless every leaf has one."""
        leaves = [x for x in tree_leaves(output) if isinstance(x, torch.Tensor) and x.layout is torch.strided]
        if not self.known or not leaves or any(x.numel() < MIN_ELEMENTS for x in leaves):
            return ""
        makers = [self.known.get(_fingerprint(x), "") for x in leaves]
        return f"aten.{makers[0]}" if all(makers) else ""


def _fingerprint(x: torch.Tensor) -> Fingerprint:
    """Fingerprint the elements of a tensor in logical order, whatever its shape; zeros of both signs count alike."""
    with torch._C.DisableTorchFunction():
        x = x + 0.0 if x.is_floating_point() and x.element_size() > 1 else x
        flat = x.detach().resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8)
        return x.dtype, x.numel(), zlib.crc32(flat.numpy().data)


class LibraryRecorder(TorchDispatchMode):
    """Dispatch mode that records the operators which would launch work on the device, but no views or allocations.

    Args:
        provenance: tracks what they compute (real run).
    """

    def __init__(self, provenance: Provenance | None = None) -> None:
        super().__init__()
        self.provenance = provenance
        self.calls: list[LibraryCall] = []
        self.recording = False
        self.known_by_storage: dict[int, Any] = {}
        """Storage key -> what is known of an input's integers; copies of the input are added."""
        self.copies: list[torch.Tensor] = []
        """Those copies, kept alive so that no storage key is used twice."""
        self.operands: set[int] = set()
        """Keys of the storages that library operators read."""
        self.fresh: dict[int, tuple[torch.Tensor, int]] = {}
        """Storage key -> uninitialised tensor and its version, which moves when PyTorch, not a kernel, writes."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        library = isinstance(function, torch._ops.OpOverload) and function.namespace == "aten"
        if self.recording and library and not in_kernel():  # inside of a kernel, the interpreter itself calls PyTorch
            self._record(function, args, kwargs or {}, result)
        return result

    def result_bytes(self) -> dict[str, int]:
        """Sum the bytes of all results by operator."""
        total: dict[str, int] = {}
        for call in self.calls:
            total[call.name] = call.result_bytes + total.get(call.name, 0)
        return total

    def bytes_read(self) -> float:
        """Sum the bytes that operators read which compute."""
        asked = set(computing(call.name for call in self.calls))
        return sum(call.bytes - call.result_bytes for call in self.calls if call.name in asked)

    def _record(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        name = function._schema.name.removeprefix("aten::")
        operands = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        results = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        if name.startswith(("empty", "new_empty")) and not results[0].is_inference():
            self.fresh[memory_of(results[0])] = (results[0], results[0]._version)
        if name in NO_WORK or not results or _is_view(function):
            return
        known = {memory_of(x) for x in operands}
        if not function._schema.is_mutable and all(memory_of(x) in known for x in results):
            return  # it returned its operand unchanged, as `contiguous` and `to` may do
        self.operands |= known
        distinct = {memory_of(x): x for x in operands}
        moved = sum(map(_bytes, distinct.values())) + sum(map(_bytes, results))
        if name in ("fill_", "zero_", "copy_"):
            moved -= _bytes(results[0])  # the target is written, not read
        if self.provenance is not None:
            self.provenance.note(name, operands, results)
        if name in ("_to_copy", "clone") and memory_of(operands[0]) in self.known_by_storage:
            self.copies += results
            self.known_by_storage[memory_of(results[0])] = self.known_by_storage[memory_of(operands[0])]
        flops = product_flops(function._overloadpacket, args, kwargs, result)
        self.calls.append(
            LibraryCall(
                name=f"aten.{name}",
                bytes=float(moved),
                flops=flops or 0.0,
                counted=flops is not None,
                dtype=str(operands[0].dtype).removeprefix("torch.") if operands else "",
                outputs=tuple(describe(x) for x in results),
                result_bytes=sum(map(_bytes, results)),
            )
        )


def memory_of(x: torch.Tensor) -> int:
    """Return the key of a tensor's storage. A sparse tensor has several storages, so it stands for itself."""
    return int(x.untyped_storage()._cdata) if x.layout is torch.strided else id(x)


def _bytes(x: torch.Tensor) -> int:
    """Count the bytes of a tensor that are surely read or written; none of a sparse tensor."""
    return distinct_bytes(x) if x.layout is torch.strided else 0


def _is_view(function: Any) -> bool:
    """Whether all results of an operator alias an operand without writing to it."""
    returns = function._schema.returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)
