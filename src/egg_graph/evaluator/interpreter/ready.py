"""Answers that the library computed from nothing that a kernel wrote: whatever kernels do then, they hand them on.

Values tell by themselves whether a kernel only copies; one that computes something else beside it hides that. So
every result of an operator is remembered by its bytes, unless it rests on memory that a kernel of the candidate wrote.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.interpreter.address_space import AddressSpace
from egg_graph.evaluator.wire.operators import COPIES

LEAST = 8
"""Elements of a result that is worth remembering: fewer may be the same by chance."""
Known = tuple[torch.dtype, int, int]


class Ready:
    """What the library alone has computed in one forward.

    Args:
        memory: that kernels write to; what earlier forwards wrote counts no more.
    """

    def __init__(self, memory: AddressSpace) -> None:
        self.memory = memory
        memory.stored.clear()
        self.computed: dict[int, Any] = {}
        """Storages that hold what the library computed by itself, kept so that no address comes twice."""
        self.mixed: dict[int, Any] = {}
        """Storages that hold what it computed from results of kernels."""
        self.known: dict[Known, str] = {}

    def note(self, name: str, operands: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
        """One operator that computed or moved numbers."""
        read = operands[1:] if name == "copy_" else operands  # the target is written, not read
        storages = [x.untyped_storage() for x in read if x.layout is torch.strided]
        from_kernels = any(s._cdata in self.memory.stored or s._cdata in self.mixed for s in storages)
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
                if result.numel() >= LEAST:
                    self.known.setdefault(_bytes_of(result), name)

    def made(self, output: Any) -> str:
        """The operator that had computed an answer by itself; empty if there is a leaf that none had."""
        leaves = [x for x in tree_leaves(output) if isinstance(x, torch.Tensor) and x.layout is torch.strided]
        if not self.known or not leaves or any(x.numel() < LEAST for x in leaves):
            return ""
        makers = [self.known.get(_bytes_of(x), "") for x in leaves]
        return f"aten.{makers[0]}" if all(makers) else ""


def _bytes_of(x: torch.Tensor) -> Known:
    """Elements in logical order, whatever the shape."""
    with torch._C.DisableTorchFunction():
        flat = x.detach().resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8)
        return x.dtype, x.numel(), zlib.crc32(flat.numpy().data)
