"""Judge one answer of a candidate against what the reference says: the same comparison for both ladders.

An executor hands over an `Answer`. It holds what the executor observed itself (tensors in the judge's memory, inputs
after the call) and what the candidate's process told about them, which is read with suspicion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.case import Case, Update
from egg_graph.evaluator.problem.case_store import CaseStore
from egg_graph.evaluator.problem.domain import touched_by_infinities, without_non_finite
from egg_graph.evaluator.problem.error_sums import relative_error
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.families import FAMILIES
from egg_graph.evaluator.problem.leaf_comparison import compare_leaf
from egg_graph.evaluator.problem.reference import Reference
from egg_graph.evaluator.wire import exchange
from egg_graph.evaluator.wire.leaf import overlapping
from egg_graph.schema import Check, Finding, FindingKind, KernelTask

NUMBERS: frozenset[FindingKind] = frozenset({"wrong_values", "non_finite", "precision_loss"})
"""Findings on elements that were written, in an answer of the right form."""
VALUES: frozenset[FindingKind] = NUMBERS | {"unwritten_output"}
"""Findings on the numbers of an answer."""


@dataclass(frozen=True)
class Answer:
    """One answer, as an executor holds it.

    Args:
        structure: of the leaves, as the candidate's process told: `(*, {a: *})`.
        forms: of each leaf, as the candidate's process told (see `describe_leaf`); empty for a plain number.
        leaves: content of each leaf where its form is the due one; anything else where it is not.
        inputs: what each of `input_tensors` is after the call; words where it is no tensor of its form any more.
        state: parameters and buffers after the call, by name; None where they were not looked at.
        changed: global state of PyTorch that the call changed, in words.
        aliases: leaf and owner, both in words, of each leaf that lies in the memory of another tensor.
        observed: faults that the executor saw round the call.
        strays: elements that hold what lies beside an input.
        machine: `interpreter`, or the name of the GPU.
        source: text of the candidate, which a finding may name.
    """

    structure: Any
    forms: Any
    leaves: Sequence[Any]
    inputs: Sequence[Any]
    machine: str
    source: str
    state: Mapping[str, torch.Tensor | str] | None = None
    changed: Sequence[Any] = ()
    aliases: Sequence[tuple[str, str]] = ()
    observed: Sequence[Finding] = ()
    strays: Sequence[Finding] = ()


def judge_answer(problem: CaseStore, case: Case, answer: Answer) -> tuple[list[Finding], Check | None]:
    """All that is wrong with one answer, and the check of its values.

    Args:
        problem: the task under judgement.
        case: what was asked.
        answer: what came back.
    """
    findings = [*answer.observed, *_changed_inputs(problem.reference, case, answer.inputs)]
    findings += weights_changed(case, answer.state) if answer.state is not None else []
    findings += left_changed(answer.changed)
    if (broken := _broken_structure(case, answer)) is not None:
        return [*findings, broken], None
    leaves = [
        _of_told_form(leaf, form, due) for leaf, form, due in zip(answer.leaves, answer.forms, case.leaves, strict=True)
    ]
    compared, check = judge_leaves(problem.task, case, leaves, machine=answer.machine, source=answer.source)
    if (
        case.beyond_finite
        and problem.task.domain == "finite"
        and _differ_in_infinities_alone(problem, case, leaves, compared)
    ):
        compared, check = [_not_preserved(case, compared[0])], None
    return [*findings, *answer.strays, *compared, *_judge_memory(case, answer)], check


def _differ_in_infinities_alone(
    problem: CaseStore, case: Case, leaves: Sequence[Any], compared: Sequence[Finding]
) -> bool:
    """Whether wrong leaves are right wherever infinities neither are nor reach."""
    if not compared or any(finding.kind not in NUMBERS for finding in compared):
        return False
    if _right_elsewhere(problem, case, leaves, [None] * len(leaves)):
        return True
    return _right_elsewhere(problem, case, leaves, touched_by_infinities(case, problem.task.precision))


def _right_elsewhere(
    problem: CaseStore, case: Case, leaves: Sequence[Any], touched: Sequence[torch.Tensor | None]
) -> bool:
    """Whether leaves are right where they and the expected ones are finite, and infinities do not reach."""
    finite = [without_non_finite(*each) for each in zip(leaves, case.leaves, touched, strict=True)]
    return not judge_leaves(problem.task, case, finite, machine="", source="")[0]


def _not_preserved(case: Case, finding: Finding) -> Finding:
    """What to tell of a kernel that loses infinities of which its task says nothing."""
    message = f"infinities ({case.family} inputs, {case.name} shape: {finding.message})"
    return Finding(kind="not_preserved", message=message, where=finding.where)


def _broken_structure(case: Case, answer: Answer) -> Finding | None:
    """What is wrong with the structure of an answer."""
    forms, structure = answer.forms, answer.structure
    if not isinstance(structure, str) or not isinstance(forms, list) or not all(map(readable, forms)):
        return Finding(kind="exited", message="the process gave no readable answer")
    strange = sorted({str(form["strange"]) for form in forms if "strange" in form})
    if strange:
        message = f"forward returns {', '.join(strange)[:200]} where the reference returns tensors"
        return Finding(kind="wrong_structure", message=message)
    if structure != case.structure or len(forms) != len(case.leaves):
        message = f"forward returns {structure[:200]} where the reference returns {case.structure} (* is a tensor)"
        return Finding(kind="wrong_structure", message=message)
    return None


def readable(form: Any) -> bool:
    """Whether what a candidate's process told about a leaf makes sense at all."""
    if not isinstance(form, dict) or not form or "strange" in form:
        return isinstance(form, dict)
    shape, stride = form.get("shape"), form.get("stride")
    if not isinstance(shape, list) or not isinstance(stride, list) or len(shape) != len(stride):
        return False
    sizes = all(type(n) is int and 0 <= n < 1 << 40 for n in (*shape, *stride))
    return sizes and isinstance(form.get("dtype"), str) and form["dtype"] in exchange.DTYPES


def _of_told_form(leaf: Any, form: Mapping[str, Any], due: ExpectedLeaf) -> Any:
    """The content of a leaf; a tensor of the told form alone where that form is wrong, or nothing was delivered."""
    if not form or (form["shape"] == list(due.expected.shape) and exchange.DTYPES[form["dtype"]] == due.dtype):
        return leaf
    return form_alone(form)


def form_alone(form: Mapping[str, Any]) -> torch.Tensor:
    """A tensor without content, of the shape and dtype that a process told."""
    return torch.empty(form["shape"], dtype=exchange.DTYPES[form["dtype"]], device="meta")


def _judge_memory(case: Case, answer: Answer) -> list[Finding]:
    """Strides, device and memory of the leaves."""
    findings = judge_strides(case, answer.forms)
    for number, form in enumerate(answer.forms):
        device, where = str(form.get("device", "cuda")), leaf_name(number, len(answer.forms))
        if not device.startswith("cuda"):
            message = f"{where} lies on {device} where the reference's is on the GPU"
            findings.append(Finding(kind="wrong_device", message=message, where=where))
    return findings if case.aliases else findings + [aliased(*alias) for alias in answer.aliases]


def leaf_name(number: int, count: int) -> str:
    """`the output`, or `output 1` where there are several."""
    return f"output {number}" if count > 1 else "the output"


def aliased(where: str, owner: str) -> Finding:
    """An answer in memory that is not its own."""
    return Finding(
        kind="aliased_output",
        message=f"{where} lies in the memory of {owner}: whoever changes one changes the other",
        where=where,
        cure="allocate the output anew in every forward (torch.empty_like), and return nothing that is kept",
    )


def overwritten(where: str) -> Finding:
    """An answer that a later call overwrote while its holder still had it."""
    return Finding(
        kind="aliased_output",
        message="a later call changes the answer that an earlier one returned and somebody still holds",
        where=where,
        cure="allocate the output anew in every forward (torch.empty_like); only scratch memory may be kept",
    )


def judge_leaves(
    task: KernelTask, case: Case, leaves: Sequence[Any], *, machine: str, source: str
) -> tuple[list[Finding], Check | None]:
    """All leaves of one answer against one case; `source` is the candidate's."""
    findings: list[Finding] = []
    worst: Check | None = None
    for index, (got, leaf) in enumerate(zip(leaves, case.leaves, strict=True)):
        output = leaf_name(index, len(case.leaves))
        form = f"of shape {list(leaf.expected.shape)}" if leaf.expected.dim() else "(a scalar)"
        result = compare_leaf(
            got,
            leaf,
            where=f"{output} {form}, {case.name} shape, inputs {case.family}, seed {case.seed}",
            precision=task.precision,
            emulated_error=partial(case.emulated_error, index),
            truncated=partial(case.truncated_leaf, index),
            source=source,
        )
        findings += [_in_family(finding, case.family) for finding in result.findings]
        check = Check(
            name=case.name,
            shapes=case.input_shapes,
            seed=case.seed,
            error=result.error,
            budget=leaf.budget,
            pytorch_error=leaf.pytorch_error,
            max_abs=result.max_abs,
            passed=result.passed,
            machine=machine,
            family=case.family,
        )
        if worst is None or (check.passed, -check.error) < (worst.passed, -worst.error):
            worst = check
    return findings, worst


def judge_strides(case: Case, forms: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Leaves laid out as the reference's are not: elements that share an address, or another order, or memory between
    them, where the reference does nothing but put its numbers in order.

    Args:
        case: what was asked; where the reference's own leaf is no contiguous one, any order will do.
        forms: of each leaf, as the candidate's process told them (see `describe_leaf`).
    """
    findings = []
    for number, (form, leaf) in enumerate(zip(forms, case.leaves, strict=False)):
        where = leaf_name(number, len(forms))
        if form.get("overlapping") and not (leaf.pytorch is not None and overlapping(leaf.pytorch)):
            why = "several elements share an address, so that writing to one would change others"
            findings.append(_strides(form, where, why))
        elif _turned(form, leaf) and case.moves_only:
            why = "the reference does nothing but lay its numbers out in order, and here they are not"
            findings.append(_strides(form, where, why))
    return findings


def stride_notes(case: Case, forms: Sequence[Mapping[str, Any]]) -> list[str]:
    """Layouts worth telling and no reason to reject: ones in another order than the reference's, or with gaps."""
    return [
        f"output {number} has strides {form['stride']} where the reference's is contiguous: .view(-1) fails on it"
        for number, (form, leaf) in enumerate(zip(forms, case.leaves, strict=False))
        if _turned(form, leaf)
    ]


def _turned(form: Mapping[str, Any], leaf: ExpectedLeaf) -> bool:
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
    meant = FAMILIES[family].cure if family in FAMILIES else None
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


def input_tensors(case: Case) -> list[torch.Tensor]:
    """The tensors among a case's inputs, in order."""
    return [x for x in tree_leaves(case.inputs) if isinstance(x, torch.Tensor)]


def input_names(reference: Reference, case: Case) -> list[str]:
    """The names that the reference's forward gives to each of `input_tensors`."""
    names: list[str] = []
    for name, value in zip(reference.forward_names(len(case.inputs)), case.inputs, strict=True):
        inside = [x for x in tree_leaves(value) if isinstance(x, torch.Tensor)]
        names += [name] if len(inside) == 1 else [f"{name}[{number}]" for number in range(len(inside))]
    return names


def _changed_inputs(reference: Reference, case: Case, after: Sequence[Any]) -> list[Finding]:
    """Inputs that a call changed and the reference does not."""
    if case.changes_inputs:
        return []
    pairs = zip(input_names(reference, case), input_tensors(case), after, strict=True)
    return [input_mutated(name) for name, before, now in pairs if not _is_unchanged(before, now)]


def _is_unchanged(before: torch.Tensor, now: Any) -> bool:
    same_form = isinstance(now, torch.Tensor) and (now.shape, now.dtype) == (before.shape, before.dtype)
    return same_form and same_bytes(before, now)


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
