"""Whether a forward reads numbers of tensors on the host: they may stand for anything there, as places in a list do."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.reference_runner import ReferenceRunner
from egg_graph.schema import Precision

READING = frozenset({torch.Tensor.tolist, torch.Tensor.item, torch.Tensor.numpy, torch.Tensor.__index__})
"""Functions that give a tensor's numbers to Python. Some run no operator by which that could be seen."""


class HostReads(TorchFunctionMode):
    """While active, notices that one of `READING` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found |= function in READING
        return function(*args, **(kwargs or {}))


def reads_on_the_host(case: Case, precision: Precision) -> bool:
    """Whether the reference reads numbers on the host at a case's inputs.

    Raises:
        BadInput: if forward fails.
    """
    reads = HostReads()
    ReferenceRunner.of(case).at(precision, recorder=reads)
    return reads.found
