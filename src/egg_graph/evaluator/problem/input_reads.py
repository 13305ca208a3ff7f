"""Find the inputs that the reference reads completely, whatever values they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.operators import READS_ALL
from egg_graph.evaluator.problem.recurrences import Recurrence, WholeRecurrences
from egg_graph.evaluator.problem.reference import Reference

MOST_ZEROS = 0.01
"""An input with a larger share of zeros has a structure that a kernel may exploit without reading it."""
LEAST_DISTINCT = 0.2
"""An input with a smaller share of distinct values in a sample has such a structure too."""
SAMPLE = 4096
"""Number of elements in that sample."""


def fully_read_inputs(reference: Reference, case: Case) -> set[int]:
    """Positions of the inputs that enter an operator that reads every element, and that have no visible structure.

    Args:
        reference: the reference at full shape. It runs under fake tensors.
        case: a case at any shape. The values of its inputs show whether they have a structure.

    Raises:
        Exception: whatever the reference raises under fake tensors.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        model, inputs = reference.model(0), reference.inputs(0)
        recorder = InputReads(inputs)
        with recorder, WholeRecurrences(recorder.hear):
            model(*inputs)
    return {index for index in recorder.positions if not is_structured(case.inputs[index])}


class InputReads(TorchDispatchMode):
    """While active, records which inputs enter an operator that reads every element.

    Args:
        inputs: positional arguments of a forward.
    """

    def __init__(self, inputs: Sequence[Any]) -> None:
        super().__init__()
        self.owners = {_storage_key(x): index for index, x in enumerate(inputs) if isinstance(x, torch.Tensor)}
        """Position of the input that owns each storage."""
        self.positions: set[int] = set()
        """Positions of the inputs that were read completely."""

    def owns(self, x: torch.Tensor) -> bool:
        """Whether a tensor lies in the memory of an input."""
        return _storage_key(x) in self.owners

    def hear(self, recurrence: Recurrence) -> None:
        """Record a recurrence: every step reads its part of the input, and the first step all of the states."""
        self._read(recurrence.tensors)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in READS_ALL:
            self._read(tree_leaves((args, kwargs)))
        return answer

    def _read(self, operands: Sequence[Any]) -> None:
        for x in operands:
            if isinstance(x, torch.Tensor) and x.numel() * x.element_size() >= x.untyped_storage().nbytes():
                self.positions |= {self.owners[key] for key in [_storage_key(x)] if key in self.owners}


def _storage_key(x: torch.Tensor) -> int:
    return int(x.untyped_storage()._cdata)


def is_structured(x: torch.Tensor) -> bool:
    """Whether a kernel could know some elements of an input without reading them."""
    if not x.is_floating_point() or not x.numel():
        return True
    if x.numel() - int(x.count_nonzero()) > MOST_ZEROS * x.numel():
        return True
    sample = x.reshape(-1)[:: max(1, x.numel() // SAMPLE)]
    if sample.unique().numel() < LEAST_DISTINCT * sample.numel():
        return True
    return x.dim() >= 2 and x.shape[-1] == x.shape[-2] and bool(torch.equal(x, x.transpose(-1, -2)))
