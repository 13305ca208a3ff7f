"""Judge the bytes that one forward moved: by library copies, by reads back to the host, or by its own kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from egg_graph.evaluator.evidence.findings import not_causal
from egg_graph.evaluator.wire.operators import COPIES, computing, kinds_of_work, listed, operator_name
from egg_graph.schema import Finding, Integrity

BULK, TOKEN = 4, 16
"""A copy of at least 1/4 of the answer counts as bulk; kernels that move less than 1/16 of it move only a token."""
REST = 16
"""Library operators that read at most 1/16 of what the reference reads, and of what own kernels move, finish a rest."""
FEW_READ, INPUTS_PER_READ, MOST_READ = 64, 16, 65536
"""A forward may read back `FEW_READ` numbers, or one per `INPUTS_PER_READ` input elements, at most `MOST_READ`."""
LONGEST = 200
"""Cut names to this many characters."""


@dataclass(frozen=True)
class Traffic:
    """Bytes that one forward moved, as its process reported."""

    answer: int
    """Bytes of the leaves that it has to return."""
    results: Mapping[str, int]
    """Bytes of all results of each operator, by name."""
    kernels: float | None = None
    """Bytes that its own kernels load and store; None if they were not counted."""
    read: Callable[[], int] = lambda: 0
    """Tells the bytes of the inputs that the reference surely reads from end to end."""
    library: float | None = None
    """Bytes that library operators read which compute; None if they were not counted."""
    filled: int | None = None
    """Bytes of the leaves' elements that are not zero; None if they were not counted."""

    @classmethod
    def told(
        cls,
        answer: int,
        results: Any,
        kernels: Any = None,
        library: Any = None,
        *,
        read: Callable[[], int] = lambda: 0,
        filled: int | None = None,
    ) -> Traffic:
        """Read a candidate's report, which may have any form."""
        pairs = results.items() if isinstance(results, Mapping) else ()
        known = {str(name)[:LONGEST]: size for name, size in pairs if isinstance(size, int)}
        counts = [n if isinstance(n, int | float) and n >= 0 else None for n in (kernels, library)]
        return cls(answer, known, counts[0], read, counts[1], filled)

    @property
    def library_finishes(self) -> bool:
        """Whether the library computes on a small rest alone, as the last sum of a reduction in two steps does."""
        if self.library is None or (self.kernels is not None and self.library * REST > self.kernels):
            return False
        return self.library * REST <= self.read()


def moved_by_library(
    integrity: Integrity, reference_operators: Sequence[str], traffic: Traffic | None
) -> list[Finding]:
    """Reject bulk copies by the library where the reference does nothing but copy."""
    moves = {operator_name(name) for name in reference_operators} & COPIES
    if traffic is None or not moves or computing(reference_operators):
        return []
    copied = {name: nbytes for name, nbytes in traffic.results.items() if operator_name(name) in COPIES}
    if not any(copied.values()) or not 0 < traffic.answer <= sum(copied.values()) * BULK:
        return []
    return [
        not_causal(
            f"the reference only moves numbers ({listed(sorted(moves))}), and forward has PyTorch move them "
            f"({listed(sorted(copied))}): what is left to its Triton kernels replaces nothing",
            "read the inputs by their strides in the kernel, and write each number to its place in the output",
            integrity.kernels,
        )
    ]


def only_a_token(integrity: Integrity, reference_operators: Sequence[str], traffic: Traffic | None) -> list[Finding]:
    """Reject kernels that move next to nothing beside library work of every kind that the reference does."""
    wanted, done = kinds_of_work(reference_operators), kinds_of_work(integrity.computing)
    if traffic is None or traffic.kernels is None or not integrity.computing or wanted - done:
        return []
    answer = traffic.answer if traffic.filled is None else traffic.filled
    if traffic.kernels * TOKEN >= answer:
        return []
    return [
        not_causal(
            f"the Triton kernels read and write {traffic.kernels} bytes where the answer alone has "
            f"{answer}: {listed(integrity.computing)} of PyTorch does the work",
            "compute the answer in Triton; a number that is mixed into another's result is no work",
            integrity.kernels,
        )
    ]


def judge_read_back(read_back: Any, inputs: Sequence[Any]) -> list[Finding]:
    """Reject a forward that reads numbers back to the host in bulk: host code computes there, no kernel does.

    Args:
        read_back: by the name of a function or operator, as the candidate's process told.
        inputs: of the forward; a few numbers beside them (lengths, offsets, a scale) are free to all.
    """
    told = read_back.items() if isinstance(read_back, Mapping) else ()
    counts = {str(name)[:LONGEST]: number for name, number in told if isinstance(number, int) and number > 0}
    given = sum(x.numel() for x in torch.utils._pytree.tree_leaves(list(inputs)) if isinstance(x, torch.Tensor))
    total = sum(counts.values())
    if total <= min(max(FEW_READ, given // INPUTS_PER_READ), MOST_READ):
        return []
    return [
        not_causal(
            f"forward reads {total} numbers back from the GPU ({listed(sorted(counts))}), where its inputs are "
            f"{given}: what Python, NumPy or PyTorch computes of them on the host is no kernel's work",
            "compute it in a Triton kernel; read back nothing but a few lengths or offsets",
            (),
        )
    ]
