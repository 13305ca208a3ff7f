"""One answer of a candidate against what the reference says, leaf by leaf, and the inputs it was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from egg_graph.evaluator import exchange
from egg_graph.evaluator.compare import compare, relative_error
from egg_graph.evaluator.docket import Docket
from egg_graph.evaluator.families import WRONG_HERE
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
            where=f"{output} {form}, {case.name} shape, inputs {case.family}, seed {case.seed}",
            precision=task.precision,
            emulated_error=partial(case.emulated_error, index),
            source=source,
        )
        findings += [_in_family(finding, case.family) for finding in result.findings]
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


def _in_family(finding: Finding, family: str) -> Finding:
    """What a wrong answer to inputs of this kind most likely means, first."""
    meant = WRONG_HERE.get(family)
    if meant is None or finding.kind not in ("wrong_values", "non_finite", "precision_loss"):
        return finding
    return finding.model_copy(update={"cure": f"{meant}; {finding.cure}" if finding.cure else meant})


def weights_changed(case: Case, after: Mapping[str, Any]) -> list[Finding]:
    """Parameters and buffers that a call changed and the reference does not, or the other way round.

    Args:
        case: what was asked.
        after: the candidate's state after the call, by name.
    """
    findings = []
    for name, before in case.state.items():
        now, due = after[name], case.updates.get(name)
        if due is None:
            if exchange.as_bytes(before) != exchange.as_bytes(now):
                message = f"forward changes {name}, which the reference leaves alone"
                findings.append(Finding(kind="parameter_mutated", message=message, where=name, cure=_OWN_MEMORY))
        elif (error := relative_error(now.double(), due.expected.double())) > due.budget:
            left = exchange.as_bytes(before) == exchange.as_bytes(now)
            did = "leaves it as it was" if left else f"is off by {error:.1e} of an allowed {due.budget:.1e}"
            message = f"the reference's forward updates {name} (train mode), and this one {did}"
            findings.append(Finding(kind="parameter_mutated", message=message, where=name, cure=_TRAIN_MODE))
    return findings


_OWN_MEMORY = "write to a fresh tensor: weights belong to the caller"
_TRAIN_MODE = (
    "update running statistics as PyTorch does: momentum * batch statistic + (1 - momentum) * old, with the unbiased "
    "variance, and num_batches_tracked + 1"
)


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
