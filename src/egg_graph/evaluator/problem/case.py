"""A case: one call that a candidate must answer, with the expected answer and budgets. Only the judge holds cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map_only

from egg_graph.evaluator.problem.error_sums import relative_error
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.families import AS_GIVEN
from egg_graph.evaluator.problem.leaf_comparison import Emulation
from egg_graph.evaluator.problem.operators import INDEXED_MOVES, MOVES, PRODUCTS, RECURRENT, VIEWS
from egg_graph.schema import FindingKind


class Unevaluable(Exception):
    """No candidate can be judged against this reference; the message says why.

    Args:
        message: the reason, for the reference's author.
        kind: `stochastic_problem` if the reference answers differently each time.
    """

    def __init__(self, message: str, kind: FindingKind = "degenerate_problem") -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Update:
    """The expected value of a buffer or parameter after a forward that changes it."""

    expected: torch.Tensor
    """Expected value, in fp64 if the reference runs in fp64."""
    budget: float
    """Largest relative L2 error."""


class Remaker(Protocol):
    """Makes the tensors of a case again."""

    def remake(self) -> tuple[list[Any], list[torch.Tensor], list[torch.Tensor]]:
        """Inputs, expected leaves and PyTorch's own leaves."""
        ...

    def forget(self) -> None:
        """Let go of the inputs."""
        ...


@dataclass
class Case:
    """One call at one shape and seed: what a candidate receives, and what it must answer.

    The tensors of a `transient` case are too large to be kept beside others: they are there inside `held()` only, and
    made again from the seed when they are needed. Elsewhere they are on the meta device, with shape and dtype.
    """

    name: str
    """Name of the shape."""
    overrides: dict[str, int]
    """Integers of the reference that differ from the source as written, by name."""
    seed: int
    """Seed of weights and inputs."""
    inputs: list[Any]
    """Positional arguments of forward, cast as the precision policy says."""
    state: dict[str, torch.Tensor]
    """The reference's weights, cast likewise. Constant ones (gamma = 1, beta = 0) are randomized."""
    structure: str
    """Structure of the answer: `(*, {a: *})`, where * is a tensor."""
    leaves: list[ExpectedLeaf]
    """What each leaf of the answer must be."""
    against: str
    """Precision of the expected answer: `fp64`, or `fp32` if the reference cannot run in double precision."""
    input_shapes: dict[str, tuple[int, ...]]
    """Shapes of the tensors among the inputs, by the name of forward's argument."""
    forward_seed: int
    """Seed that torch's generator gets before the forward."""
    model: nn.Module = field(repr=False)
    """The reference's module, cast and with these weights."""
    emulate: Callable[[Emulation], list[torch.Tensor] | None] = field(repr=False)
    """Runs the reference under a coarser arithmetic; returns None if it cannot run so."""
    emulations: dict[Emulation, list[float] | None] = field(default_factory=dict)
    """Errors of each leaf under the emulations that have been asked for."""
    family: str = AS_GIVEN
    """Name of the input family."""
    beyond_finite: bool = False
    """Its inputs hold infinities, or its answer overflows; on its own inputs the reference holds and makes none."""
    updates: dict[str, Update] = field(default_factory=dict)
    """Buffers and parameters that the reference's forward changes (running statistics), by name."""
    changes_inputs: bool = False
    """The reference writes to its inputs."""
    aliases: bool = False
    """The reference's answer lies in the memory of an input, parameter or buffer."""
    operators: frozenset[str] = frozenset()
    """ATen operators of one forward (see `operators`)."""
    rounds_to: frozenset[torch.dtype] = frozenset()
    """Dtypes to which the forward rounds numbers on its way, whatever it runs in: 16-bit ones, and fp32 within fp64."""
    ties: list[torch.Tensor | None] | None = field(default=None, repr=False)
    """Which elements of each input tensor are equal in every draw (see `ties`); None until somebody asked."""
    remaker: Remaker | None = field(default=None, repr=False)
    """Makes inputs and answers again; None where they cannot be drawn again."""
    transient: bool = False
    """Inputs and answers are let go outside of `held()`."""
    _holders: int = field(default=0, repr=False)
    _released_from: torch.device | None = field(default=None, repr=False)

    def make_transient(self) -> None:
        """Let go of inputs and answers from now on whenever nobody holds them."""
        if self.remaker is not None and not self.transient:
            self.transient = True
            if not self._holders:
                self._release()

    @contextmanager
    def held(self) -> Iterator[Case]:
        """The case with its tensors, for the block.

        Raises:
            torch.OutOfMemoryError: if memory does not hold them.
        """
        if self._released_from is not None:
            self._restore()
        self._holders += 1
        try:
            yield self
        finally:
            self._holders -= 1
            if self.transient and not self._holders:
                self._release()

    def _release(self) -> None:
        assert self.remaker is not None
        self._released_from, _ = self.device, self.holds_nan  # which is asked for later
        self.remaker.forget()
        self.inputs = list(tree_map_only(torch.Tensor, lambda x: x.to("meta"), self.inputs))
        self.leaves = [replace(leaf, expected=leaf.expected.to("meta"), pytorch=None) for leaf in self.leaves]

    def _restore(self) -> None:
        assert self.remaker is not None
        try:
            self.inputs, expected, answer = self.remaker.remake()
        except BaseException:  # most often memory: gigabytes of inputs must not stay behind
            self.remaker.forget()
            raise
        self.leaves = [
            replace(leaf, expected=exact, pytorch=own)
            for leaf, exact, own in zip(self.leaves, expected, answer, strict=True)
        ]
        self._released_from = None

    @property
    def moves_only(self) -> bool:
        """Whether the reference computes nothing and only puts numbers into another order."""
        moves = MOVES | INDEXED_MOVES
        return bool(self.operators & moves) and self.operators <= moves | VIEWS

    @property
    def answer_bytes(self) -> int:
        """Bytes of the leaves that a candidate has to return."""
        return sum(leaf.expected.numel() * leaf.dtype.itemsize for leaf in self.leaves)

    @property
    def filled_bytes(self) -> int:
        """Bytes of the elements of these leaves that are not zero: others need no more than an allocation of zeros."""
        return sum(int(leaf.expected.count_nonzero()) * leaf.dtype.itemsize for leaf in self.leaves)

    @property
    def nbytes(self) -> int:
        """Bytes of inputs and expected answers, which a transient case takes while it is held."""
        held = [*tree_leaves(self.inputs), *(leaf.expected for leaf in self.leaves)]
        return self.answer_bytes + sum(x.numel() * x.element_size() for x in held if isinstance(x, torch.Tensor))

    @property
    def weights_bytes(self) -> int:
        """Bytes of its parameters and buffers."""
        return sum(value.numel() * value.element_size() for value in self.state.values())

    @property
    def kept_bytes(self) -> int:
        """Bytes of inputs and expected answers that it takes now."""
        return self.nbytes if self._released_from is None else 0

    @property
    def device(self) -> torch.device:
        """Device of its tensors."""
        if self._released_from is not None:
            return self._released_from
        held = [*tree_leaves(self.inputs), *self.state.values(), *(leaf.expected for leaf in self.leaves)]
        return next(x.device for x in held if isinstance(x, torch.Tensor))

    @cached_property
    def holds_nan(self) -> bool:
        """Whether the expected answer holds NaN."""
        return any(bool(torch.isnan(leaf.expected).any()) for leaf in self.leaves)

    def truncated_leaf(self, index: int) -> torch.Tensor | None:
        """PyTorch's answer of one leaf with operands truncated to TF32; None if the reference cannot run so."""
        multiplies = any(name in PRODUCTS or "attention" in name or name in RECURRENT for name in self.operators)
        answers = self.emulate("truncated") if multiplies else None
        return None if answers is None else answers[index]

    def emulated_error(self, index: int, kind: Emulation) -> float | None:
        """Relative error of one leaf under a coarser arithmetic; None if the reference cannot run under it.

        Args:
            index: position of the leaf.
            kind: the arithmetic.
        """
        if kind not in self.emulations:
            answers = self.emulate(kind)
            self.emulations[kind] = (
                None
                if answers is None
                else [
                    relative_error(a, leaf.expected) if not leaf.exact else 0.0
                    for a, leaf in zip(answers, self.leaves, strict=True)
                ]
            )
        errors = self.emulations[kind]
        return None if errors is None else errors[index]
