"""A kernel that says itself that a shape is not for it: an assertion, an alignment, a power of two, PyTorch instead."""

from __future__ import annotations

import re
from collections.abc import Iterable

from egg_graph.evaluator.evidence.findings import reason_of
from egg_graph.evaluator.evidence.statements import show
from egg_graph.schema import Finding

REFUSES = re.compile(
    r"power of (2|two)|16[- ]bytes?[- ]aligned|multiple of 16 bytes|must be (16|a multiple|multiples|divisible)|"
    r"AssertionError|not divisible|should be (a )?multiples? of|is invalid for input of size|cannot be multiplied|"
    r"must match the (size|existing size)|[Ss]izes of tensors must match|Input shapes should have M >=|"
    r"ZeroDivisionError"
)
"""Matches what a library or an assertion says of a shape that a kernel cannot take, or Python of fewer rows than one
block."""
RAISED = re.compile(r": (assert|raise)\b")
"""Matches the place of a candidate's own statement that refuses."""
FAULT = re.compile(r"CUDA error: (an illegal instruction|misaligned address)")
"""Matches how a GPU ends a process whose access the hardware cannot align."""
KINDS = frozenset({"exception", "kernel_compile_error", "unsupported_in_kernel"})


def shape_refusal(findings: Iterable[Finding]) -> Finding | None:
    """Return the finding by which a candidate refuses a shape; None if it fails in another way.

    It is no wrong answer: whoever calls the module there is told, or gets PyTorch's answer. The candidate may do so
    wherever it likes, so a refusal is believed only of a kernel that is right at other shapes, and those are told.
    """
    for finding in findings:
        if finding.kind == "no_triton_kernel":
            return finding
        refuses = REFUSES.search(finding.message) or RAISED.search(finding.where)
        return finding if finding.kind in KINDS and refuses else None
    return None


def is_alignment_fault(findings: Iterable[Finding]) -> bool:
    """Whether a GPU ended the candidate as it does where a tensor descriptor's block starts between 16 bytes.

    What was not aligned, it does not say: the interpreter does.
    """
    return any(FAULT.search(finding.message) for finding in findings)


def refusal_statement(sizes: dict[str, int], finding: Finding) -> str:
    """What a skipped rung tells of a shape that a candidate refuses.

    Args:
        sizes: of the shape.
        finding: by which it refuses.
    """
    return f"not checked at {show(sizes)}, which it refuses: {reason_of(finding)}"
