"""ATen operators that a forward runs beside its kernels: what they move and compute."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from egg_graph.evaluator.interpreter.address_space import distinct_bytes
from egg_graph.evaluator.interpreter.arguments import describe
from egg_graph.evaluator.interpreter.ready import Ready
from egg_graph.evaluator.interpreter.run_state import in_kernel
from egg_graph.evaluator.wire.launches import LibraryCall

NO_WORK = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted", "lift_fresh",
           "set_", "resize_", "sym_size", "sym_stride", "sym_numel", "is_same_size", "record_stream"}  # fmt: skip


class LibraryRecorder(TorchDispatchMode):
    """Record the operators that would launch work on the device; views and allocations are free.

    Args:
        ready: remembers what they computed (real runs).
    """

    def __init__(self, ready: Ready | None = None) -> None:
        super().__init__()
        self.ready = ready
        self.calls: list[LibraryCall] = []
        self.recording = False
        self.greatest: dict[int, int] = {}
        """By memory, the greatest values of integers of a known range; copies hold them, too."""
        self.copies: list[torch.Tensor] = []
        """Those, kept so that their memory is nobody else's."""
        self.operands: set[int] = set()
        """Memory that library operators read."""
        self.fresh: dict[int, tuple[torch.Tensor, int]] = {}
        """Tensors that hold nothing yet, by memory, with their version: it moves when PyTorch, not a kernel, writes."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        library = isinstance(function, torch._ops.OpOverload) and function.namespace == "aten"
        if self.recording and library and not in_kernel():  # within one, the interpreter itself computes by PyTorch
            self._record(function, args, kwargs or {}, result)
        return result

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
            return  # returned its operand unchanged, as a no-op `contiguous` or `to` does
        self.operands |= known
        distinct = {memory_of(x): x for x in operands}
        moved = sum(map(_bytes, distinct.values())) + sum(map(_bytes, results))
        if name in ("fill_", "zero_", "copy_"):
            moved -= _bytes(results[0])  # the target is written, not read
        if self.ready is not None:
            self.ready.note(name, operands, results)
        if name in ("_to_copy", "clone") and memory_of(operands[0]) in self.greatest:
            self.copies += results
            self.greatest[memory_of(results[0])] = self.greatest[memory_of(operands[0])]
        self.calls.append(
            LibraryCall(
                name=f"aten.{name}",
                bytes=float(moved),
                flops=_flops(function, args, kwargs, result),
                dtype=str(operands[0].dtype).removeprefix("torch.") if operands else "",
                outputs=tuple(describe(x) for x in results),
                result_bytes=sum(map(_bytes, results)),
            )
        )


def memory_of(x: torch.Tensor) -> int:
    """Which memory a tensor lies in; a sparse one has none that can be named."""
    return int(x.untyped_storage()._cdata) if x.layout is torch.strided else id(x)


def _bytes(x: torch.Tensor) -> int:
    """What is surely read or written of a tensor; of a sparse one, nothing is known."""
    return distinct_bytes(x) if x.layout is torch.strided else 0


def _is_view(function: Any) -> bool:
    """Whether all results alias an operand without writing to it."""
    returns = function._schema.returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def _flops(function: Any, args: Any, kwargs: Any, result: Any) -> float:
    """Of matrix products, convolutions and attention, by PyTorch's own formulas; 0 for the rest."""
    formula = flop_registry.get(function._overloadpacket)
    return float(formula(*args, **kwargs, out_val=result)) if formula is not None else 0.0
