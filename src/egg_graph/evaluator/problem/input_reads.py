"""Find the inputs that the reference reads completely, whatever values they hold, and needs completely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.operators import READS_ALL, READS_SOME
from egg_graph.evaluator.problem.recurrences import Recurrence, WholeRecurrences
from egg_graph.evaluator.problem.reference import Reference

MOST_ZEROS = 0.01
"""An input with a larger share of zeros has a structure that a kernel may exploit without reading it."""
LEAST_DISTINCT = 0.2
"""An input with a smaller share of distinct values in a sample has such a structure too."""
SAMPLE = 4096
"""Number of elements in that sample."""
READ_BY_PYTHON = frozenset({"_local_scalar_dense", "equal"})
"""Operators whose result is a number or a truth value of Python, by which forward may go one way or another."""
LARGEST_UNION = 1 << 28
"""Parts of a larger tensor [bytes] are not put together; it counts as used in part."""


def fully_read_inputs(reference: Reference, case: Case) -> set[int]:
    """Positions of the inputs that enter an operator that reads every element, and that have no visible structure.

    An input whose results are used in part alone does not count: a kernel need not read the rest.

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
            output = model(*inputs)
    return {index for index in recorder.positions(output) if not is_structured(case.inputs[index])}


class View(NamedTuple):
    """The bytes of a storage that a tensor covers; its last dimension is the bytes of one element."""

    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass
class Storage:
    """A storage that operators read or made."""

    nbytes: int
    """Of the tensor that it was made for."""
    capacity: int
    owner: int | None = None
    """Position of the input that owns it."""
    touched: bool = False
    """Whether the answer depends on any of it."""
    needed: set[View] = field(default_factory=set)
    """Parts on which the answer depends."""
    _known: tuple[int, bool] = (0, False)

    @property
    def is_needed_wholly(self) -> bool:
        """Whether the answer depends on all of it."""
        if not self._known[1] and self._known[0] != len(self.needed):
            self._known = len(self.needed), self._parts_are_all()
        return self._known[1]

    def _parts_are_all(self) -> bool:
        if any(prod(view.size) == self.nbytes and 0 not in view.stride for view in self.needed):
            return True
        if self.capacity > LARGEST_UNION:
            return False
        covered = torch.zeros(self.capacity, dtype=torch.bool)
        for view in self.needed:
            covered.as_strided(view.size, view.stride, view.offset).fill_(True)
        return int(covered.count_nonzero()) >= self.nbytes


@dataclass(frozen=True)
class Step:
    """An operator that ran: what it read, and what it wrote."""

    read: tuple[tuple[Storage, View], ...]
    wrote: tuple[Storage, ...]
    reads_all: bool
    """Whether it surely reads every element of what it is given."""
    mixes: bool
    """Whether each part of its result depends on all that it read."""
    selects: bool
    """Whether it reads a part that values choose."""


class InputReads(TorchDispatchMode):
    """While active, records what operators read and write, from which follows which inputs an answer needs wholly.

    Args:
        inputs: positional arguments of a forward.
    """

    def __init__(self, inputs: Sequence[Any]) -> None:
        super().__init__()
        self.storages: dict[int, Storage] = {}
        """Storages by their address; an address that was given anew holds its latest storage."""
        self.steps: list[Step] = []
        for index, x in enumerate(inputs):
            if isinstance(x, torch.Tensor):
                self._storage(x).owner = index

    def owns(self, x: torch.Tensor) -> bool:
        """Whether a tensor lies in the memory of an input."""
        return self._storage(x).owner is not None

    def hear(self, recurrence: Recurrence) -> None:
        """Record a recurrence: every step reads its part of the input, and the first step all of the states."""
        self._record("", recurrence.tensors, recurrence.tensors, recurrence=True)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = func(*args, **(kwargs or {}))
        operands, results = _tensors((args, kwargs)), _tensors(answer)
        given = {_key(x) for x in operands}
        fresh = [x for x in results if _key(x) not in given]
        for x in fresh:
            self.storages.pop(_key(x), None)
        name = func.overloadpacket.__name__
        computes = bool(fresh) or func._schema.is_mutable or name in READ_BY_PYTHON
        if computes and not name.endswith("_like") and not name.startswith("new_"):
            self._record(name, operands, results)
        return answer

    def positions(self, output: Any) -> set[int]:
        """Positions of the inputs that were read completely, for an answer that depends on all that was read."""
        for x in _tensors(output):
            self._storage(x).touched = True
            self._storage(x).needed.add(_view(x))
        found: set[int] = set()
        for step in reversed(self.steps):
            touched = not step.wrote or any(storage.touched for storage in step.wrote)
            wholly = touched if step.mixes else any(storage.is_needed_wholly for storage in step.wrote)
            for storage, view in step.read:
                storage.touched |= touched
                if wholly and not step.selects:
                    storage.needed.add(view)
                    if step.reads_all and storage.owner is not None and prod(view.size) >= storage.nbytes:
                        found.add(storage.owner)
        return found

    def _record(
        self, name: str, operands: Sequence[torch.Tensor], results: Sequence[torch.Tensor], *, recurrence: bool = False
    ) -> None:
        self.steps.append(
            Step(
                read=tuple((self._storage(x), _view(x)) for x in operands),
                wrote=tuple(self._storage(x) for x in results),
                reads_all=recurrence or name in READS_ALL,
                mixes=recurrence or not results,
                selects=name in READS_SOME,
            )
        )

    def _storage(self, x: torch.Tensor) -> Storage:
        if _key(x) not in self.storages:
            capacity = x.untyped_storage().nbytes()
            self.storages[_key(x)] = Storage(min(capacity, x.numel() * x.element_size()), capacity)
        return self.storages[_key(x)]


def _tensors(values: Any) -> list[torch.Tensor]:
    return [x for x in tree_leaves(values) if isinstance(x, torch.Tensor) and x.layout is torch.strided]


def _key(x: torch.Tensor) -> int:
    return int(x.untyped_storage()._cdata)


def _view(x: torch.Tensor) -> View:
    unit = x.element_size()
    return View(x.storage_offset() * unit, (*x.shape, unit), (*(step * unit for step in x.stride()), 1))


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
