"""Bytes that one forward moved, and by whom: numbers put elsewhere, read back to the host, or hardly touched at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from egg_graph.evaluator.wire.operators import COPIES, computing, kinds_of_work, listed, operator_name
from egg_graph.schema import Finding, Integrity

BULK, TOKEN = 4, 16
"""A copy of a quarter of the answer is one in bulk; kernels that move less than a sixteenth of it move a token."""
FEW_READ, INPUTS_PER_READ, MOST_READ = 64, 16, 65536
"""A forward may read this many numbers back to the host, or one per so many inputs, but never more than the last."""
LONGEST = 200
"""Characters of a name that are kept."""


@dataclass(frozen=True)
class Traffic:
    """Bytes that one forward moved, as its process told."""

    answer: int
    """Of the leaves that it has to return."""
    results: Mapping[str, int]
    """Of all results of each operator, by name."""
    kernels: float | None = None
    """That its own kernels asked for, loads and stores; None if nobody counted."""

    @classmethod
    def told(cls, answer: int, results: Any, kernels: Any = None) -> Traffic:
        """From the words of a candidate's process, which may be of any form."""
        pairs = results.items() if isinstance(results, Mapping) else ()
        known = {str(name)[:LONGEST]: size for name, size in pairs if isinstance(size, int)}
        return cls(answer, known, kernels if isinstance(kernels, int | float) else None)


def moved_by_library(
    integrity: Integrity, reference_operators: Sequence[str], traffic: Traffic | None
) -> list[Finding]:
    """Copies in bulk by the library where copying is all that the reference does."""
    moves = {operator_name(name) for name in reference_operators} & COPIES
    if traffic is None or not moves or computing(reference_operators):
        return []
    copied = {name: nbytes for name, nbytes in traffic.results.items() if operator_name(name) in COPIES}
    if not any(copied.values()) or not 0 < traffic.answer <= sum(copied.values()) * BULK:
        return []
    return [
        Finding(
            kind="not_causal",
            message=f"the reference only moves numbers ({listed(sorted(moves))}), and forward has PyTorch move them "
            f"({listed(sorted(copied))}): what is left to its Triton kernels replaces nothing",
            where=f"kernel {', '.join(integrity.kernels)}"[:200],
            cure="read the inputs by their strides in the kernel, and write each number to its place in the output",
        )
    ]


def only_a_token(integrity: Integrity, reference_operators: Sequence[str], traffic: Traffic | None) -> list[Finding]:
    """Kernels that touch next to nothing, beside library work of every kind that the reference does."""
    wanted, done = kinds_of_work(reference_operators), kinds_of_work(integrity.computing)
    if traffic is None or traffic.kernels is None or not integrity.computing or wanted - done:
        return []
    if traffic.kernels * TOKEN >= traffic.answer:
        return []
    return [
        Finding(
            kind="not_causal",
            message=f"the Triton kernels read and write {traffic.kernels} bytes where the answer alone has "
            f"{traffic.answer}: {listed(integrity.computing)} of PyTorch does the work",
            where=f"kernel {', '.join(integrity.kernels)}"[:200],
            cure="compute the answer in Triton; a number that is mixed into another's result is no work",
        )
    ]


def judge_read_back(read_back: Any, inputs: Sequence[Any]) -> list[Finding]:
    """Numbers in bulk that a forward reads back to the host: what is computed of them there is no kernel's work.

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
        Finding(
            kind="not_causal",
            message=f"forward reads {total} numbers back from the GPU ({listed(sorted(counts))}), where its inputs are "
            f"{given}: what Python, NumPy or PyTorch computes of them on the host is no kernel's work",
            cure="compute it in a Triton kernel; read back nothing but a few lengths or offsets",
        )
    ]
