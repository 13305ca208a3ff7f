"""One answer of a candidate against what the reference says, leaf by leaf, and the inputs it was given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from egg_graph.evaluator.problem.case import Case, Update
from egg_graph.evaluator.problem.compare import Leaf, compare, relative_error
from egg_graph.evaluator.problem.families import WRONG_HERE
from egg_graph.evaluator.wire import exchange
from egg_graph.evaluator.wire.leaf import overlapping
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


def judge_strides(case: Case, forms: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Leaves laid out as the reference's are not: elements that share an address, memory between them, or another
    order where the reference does nothing but put its numbers in order.

    Args:
        case: what was asked; where the reference's own leaf is no contiguous one, any dense order will do.
        forms: of each leaf, as the candidate's process told them (see `describe_leaf`).
    """
    findings = []
    for number, (form, leaf) in enumerate(zip(forms, case.leaves, strict=False)):
        where = f"output {number}" if len(forms) > 1 else "the output"
        if form.get("overlapping") and not (leaf.pytorch is not None and overlapping(leaf.pytorch)):
            why = "several elements share an address, so that writing to one would change others"
            findings.append(_strides(form, where, why))
        elif _turned(form, leaf) and form.get("gaps"):
            findings.append(_strides(form, where, "there is memory between its elements, and the reference's has none"))
        elif _turned(form, leaf) and case.moves_only:
            why = "the reference does nothing but lay its numbers out in order, and here they are not"
            findings.append(_strides(form, where, why))
    return findings


def stride_notes(case: Case, forms: Sequence[Mapping[str, Any]]) -> list[str]:
    """Layouts worth telling and no reason to reject: dense ones in another order than the reference's."""
    return [
        f"output {number} has strides {form['stride']} where the reference's is contiguous: .view(-1) fails on it"
        for number, (form, leaf) in enumerate(zip(forms, case.leaves, strict=False))
        if _turned(form, leaf)
    ]


def _turned(form: Mapping[str, Any], leaf: Leaf) -> bool:
    """Whether a leaf is not contiguous where the reference's is."""
    due = leaf.pytorch
    if due is None or form.get("shape") != list(due.shape) or not due.is_contiguous():
        return False
    return not _contiguous(form["shape"], form["stride"])


def _strides(form: Mapping[str, Any], where: str, why: str) -> Finding:
    return Finding(
        kind="wrong_strides",
        message=f"{where} has shape {form['shape']} with strides {form['stride']}: {why}",
        where=where,
        cure="return a dense tensor in the reference's order: allocate it by its shape, have the kernel write every "
        "element to its place; expand(), .T and slices make views, not values",
    )


def _contiguous(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """As `Tensor.is_contiguous`: a dimension of size 1 may have any stride."""
    step = 1
    for size, told in reversed(list(zip(shape, stride, strict=True)) if 0 not in shape else []):
        if size > 1 and told != step:
            return False
        step *= size
    return True


def _in_family(finding: Finding, family: str) -> Finding:
    """What a wrong answer to inputs of this kind most likely means, first."""
    meant = WRONG_HERE.get(family)
    if meant is None or finding.kind not in ("wrong_values", "non_finite", "precision_loss"):
        return finding
    return finding.model_copy(update={"cure": f"{meant}; {finding.cure}" if finding.cure else meant})


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one form hold the same bits; NaN equals itself."""
    a, b = a.contiguous().reshape(-1), b.contiguous().reshape(-1)
    return bool(torch.equal(a.view(torch.uint8), b.view(torch.uint8))) if a.numel() else True


def weights_changed(case: Case, after: Mapping[str, torch.Tensor | str]) -> list[Finding]:
    """Parameters and buffers that a call changed and the reference does not, or the other way round.

    Args:
        case: what was asked.
        after: the candidate's state after one call, by name, on the case's device; words where one is no longer a
            tensor of its form. What it lacks is judged only where the reference updates it.
    """
    return [
        Finding(kind="parameter_mutated", message=message, where=name, cure=cure)
        for name, before in case.state.items()
        for message, cure in _changed(name, before, after.get(name), case.updates.get(name))
    ]


def _changed(
    name: str, before: torch.Tensor, now: torch.Tensor | str | None, due: Update | None
) -> Iterator[tuple[str, str]]:
    """What is wrong with one of them, and its cure."""
    updates = f"the reference's forward updates {name} (train mode)"
    if now is None:
        if due is not None:
            yield f"{updates}, and this one's module holds it no longer", _TRAIN_MODE
        return
    if isinstance(now, str) or (now.shape, now.dtype) != (before.shape, before.dtype):
        what = now[:100] if isinstance(now, str) else exchange.describe(now)
        yield f"forward makes {what} of {name}, which was {exchange.describe(before)}", _OWN_MEMORY
        return
    left = same_bytes(before, now)
    if due is None:
        if not left:
            yield f"forward changes {name}, which the reference leaves alone", _OWN_MEMORY
        return
    error = relative_error(now.double(), due.expected.double())
    if not error <= due.budget:  # a NaN is no error within a budget
        did = "leaves it as it was" if left else f"is off by {error:.1e} of an allowed {due.budget:.1e}"
        yield f"{updates}, and this one {did}", _TRAIN_MODE


_OWN_MEMORY = "write to a fresh tensor: weights belong to the caller"
_TRAIN_MODE = (
    "update running statistics as PyTorch does: momentum * batch statistic + (1 - momentum) * old, with the unbiased "
    "variance, and num_batches_tracked + 1"
)


def mutated(names: Sequence[str], before: Sequence[Any], after: Sequence[Any]) -> list[Finding]:
    """Inputs that the call changed, bytewise; `names` are what forward calls them."""
    return [
        input_mutated(name)
        for name, old, new in zip(names, before, after, strict=False)
        if isinstance(old, torch.Tensor)
        and (not isinstance(new, torch.Tensor) or exchange.as_bytes(old) != exchange.as_bytes(new))
    ]


def input_mutated(name: str) -> Finding:
    """An input that a call changed and the reference does not."""
    return Finding(
        kind="input_mutated",
        message=f"forward changes its input {name}, which the reference leaves alone",
        where=name,
        cure="write to a fresh tensor (torch.empty_like), not to the input",
    )


def left_changed(changed: Sequence[Any]) -> Iterator[Finding]:
    """Global state that a forward left otherwise than it found it."""
    if changed:
        yield Finding(
            kind="library_patched",
            message=f"forward changes PyTorch's global state: {'; '.join(map(str, changed))}"[:600],
            cure="leave global switches, gradient mode and the random generator's seed as they are; torch.Generator "
            "and context managers keep a change to oneself",
        )
