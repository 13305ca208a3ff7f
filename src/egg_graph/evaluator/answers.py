"""One answer of a candidate against what the reference says, leaf by leaf, and the inputs it was given."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from egg_graph.evaluator import exchange
from egg_graph.evaluator.compare import compare
from egg_graph.evaluator.docket import Docket
from egg_graph.evaluator.problem import Case
from egg_graph.schema import Check, Finding, KernelTask


def judge_leaves(
    task: KernelTask, case: Case, leaves: Sequence[Any], *, machine: str, source: str
) -> tuple[list[Finding], Check | None]:
    """All leaves of one answer against one case; `source` is the candidate's."""
    findings: list[Finding] = []
    worst: Check | None = None
    for index, (got, leaf) in enumerate(zip(leaves, case.leaves, strict=True)):
        output = f"output {index}" if len(case.leaves) > 1 else "the output"
        form = f"of shape {list(leaf.expected.shape)}" if leaf.expected.dim() else "(a scalar)"
        result = compare(
            got,
            leaf,
            where=f"{output} {form}, {case.name} inputs, seed {case.seed}",
            precision=task.precision,
            emulated_error=partial(case.emulated_error, index),
            source=source,
        )
        findings += result.findings
        check = Check(
            name=case.name,
            shapes=case.input_shapes,
            seed=case.seed,
            error=result.error,
            budget=leaf.budget,
            max_abs=result.max_abs,
            passed=result.passed,
            machine=machine,
            family=case.family,
        )
        if worst is None or (check.passed, -check.error) < (worst.passed, -worst.error):
            worst = check
    return findings, worst


def mutated(docket: Docket, before: Sequence[Any], after: Sequence[Any]) -> list[Finding]:
    """Inputs that the call changed, bytewise."""
    names = docket.reference.forward_names(len(before))
    return [
        Finding(
            kind="input_mutated",
            message=f"forward changes its input {name}, which the reference leaves alone",
            where=name,
            cure="write to a fresh tensor (torch.empty_like), not to the input",
        )
        for name, old, new in zip(names, before, after, strict=False)
        if isinstance(old, torch.Tensor)
        and (not isinstance(new, torch.Tensor) or exchange.as_bytes(old) != exchange.as_bytes(new))
    ]
