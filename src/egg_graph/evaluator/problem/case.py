"""A case: one call that a candidate must answer, with the expected answer and budgets. Only the judge holds cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.error_sums import relative_error
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.families import AS_GIVEN
from egg_graph.evaluator.problem.leaf_comparison import Emulation
from egg_graph.evaluator.problem.operators import INDEXED_MOVES, MOVES, VIEWS
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


@dataclass
class Case:
    """One call at one shape and seed: what a candidate receives, and what it must answer."""

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
    updates: dict[str, Update] = field(default_factory=dict)
    """Buffers and parameters that the reference's forward changes (running statistics), by name."""
    changes_inputs: bool = False
    """The reference writes to its inputs."""
    aliases: bool = False
    """The reference's answer lies in the memory of an input, parameter or buffer."""
    operators: frozenset[str] = frozenset()
    """ATen operators of one forward (see `operators`)."""

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
    def nbytes(self) -> int:
        """Bytes of inputs and expected answers."""
        answers = [x for leaf in self.leaves for x in (leaf.expected, leaf.pytorch)]
        held = [*tree_leaves(self.inputs), *answers]
        return sum(x.numel() * x.element_size() for x in held if isinstance(x, torch.Tensor))

    @property
    def device(self) -> torch.device:
        """Device of its tensors."""
        held = [*tree_leaves(self.inputs), *self.state.values(), *(leaf.expected for leaf in self.leaves)]
        return next(x.device for x in held if isinstance(x, torch.Tensor))

    @property
    def holds_nan(self) -> bool:
        """Whether the expected answer holds NaN."""
        return any(bool(torch.isnan(leaf.expected).any()) for leaf in self.leaves)

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
