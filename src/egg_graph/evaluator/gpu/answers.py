"""Right answers on a GPU: one call of a candidate in memory that the judge owns and poisoned, compared with fp64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from egg_graph.evaluator.gpu.arena import Arena, Overrun, from_a_band
from egg_graph.evaluator.gpu.conduct import input_names, input_tensors, judge_form, judge_inputs, judge_overruns
from egg_graph.evaluator.gpu.worker_session import WorkerSession
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.comparison import judge_leaves, left_changed
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.wire import exchange
from egg_graph.evaluator.wire.poison import poison_
from egg_graph.schema import Check, Finding


@contextmanager
def arena(session: WorkerSession | None = None) -> Iterator[Arena]:
    """Shared memory for the block; the session's worker closes it before it is freed."""
    shared = Arena()
    try:
        yield shared
    finally:
        try:
            if session is not None and session.alive:
                session.ask("release", handles=shared.handles)
        finally:
            shared.free()


def load(case: Case, problem: Problem, shared: Arena) -> dict[str, Any]:
    """Arguments of the worker's `load`: the constructor's at a case's shape, and the weights."""
    return {**problem.construction(case), "state": share_state(case, problem, shared)}


def share_state(case: Case, problem: Problem, shared: Arena) -> dict[str, dict[str, Any]]:
    """The weights in shared memory: forms by name, from which the module gets copies."""
    state = {name: shared.share(x.to(problem.device), name=f"weight {name}")[1] for name, x in case.state.items()}
    torch.cuda.synchronize()
    return state


def share_inputs(case: Case, shared: Arena, problem: Problem | None = None) -> tuple[list[torch.Tensor], list[Any]]:
    """Copies of the inputs in shared memory (kept to see what became of them), and their forms."""
    names = iter(input_names(problem, case) if problem is not None else [])
    copies: list[torch.Tensor] = []

    def share(tensor: torch.Tensor) -> dict[str, Any]:
        copy, form = shared.share(tensor, name=f"input {next(names, len(copies))}")
        copies.append(copy)
        return form

    forms = [exchange.encode(value, share) for value in case.inputs]
    torch.cuda.synchronize()
    return copies, forms


def refill(copies: Sequence[torch.Tensor], case: Case) -> None:
    """Put the inputs of another case of the same form where a candidate finds those of the last.

    The candidate's tensors stay the same objects at the same addresses, and PyTorch counts no new version of them.
    """
    for copy, tensor in zip(copies, input_tensors(case), strict=True):
        copy.copy_(tensor)
    torch.cuda.synchronize()


def poisoned_targets(case: Case, shared: Arena) -> tuple[list[torch.Tensor], list[dict[str, Any]]]:
    """Buffers for the leaves of an answer, of poisoned content, and their forms."""
    targets = [shared.empty(leaf.expected.shape, leaf.dtype, name="the place of an answer") for leaf in case.leaves]
    for tensor, _ in targets:
        poison_(tensor)
    torch.cuda.synchronize()
    return [tensor for tensor, _ in targets], [form for _, form in targets]


def check(session: WorkerSession, problem: Problem, case: Case, machine: str) -> tuple[list[Finding], Check | None]:
    """Load at a case's shape, call once in poisoned memory, compare.

    Raises:
        CandidateFailed: if the call does not come back.
        torch.OutOfMemoryError: if the judge's part does not fit.
    """
    with arena(session) as shared:
        session.ask("load", **load(case, problem, shared))
        return check_loaded(session, problem, case, machine)


def check_loaded(
    session: WorkerSession, problem: Problem, case: Case, machine: str
) -> tuple[list[Finding], Check | None]:
    """One call of what is loaded, and its comparison. Raises as `check`."""
    with arena(session) as shared:
        inputs, forms = share_inputs(case, shared, problem)
        session.ask("inputs", inputs=forms, seed=case.forward_seed)
        targets, target_forms = poisoned_targets(case, shared)
        answer = session.ask("call", outputs=target_forms)
        return judge_answer(problem, case, answer, targets, inputs, machine, source_of(session), shared.overruns())


def source_of(session: WorkerSession) -> str:
    """Text of the candidate, which words of a finding may name."""
    return (session.folder / "candidate.py").read_text(errors="replace")


def judge_answer(
    problem: Problem,
    case: Case,
    answer: dict[str, Any],
    got: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    machine: str,
    source: str,
    overruns: Sequence[Overrun] = (),
) -> tuple[list[Finding], Check | None]:
    """What is wrong with an answer.

    Args:
        problem: of the task.
        case: what was asked.
        answer: structure and forms, as the worker told them.
        got: the judge's own buffers with what the worker put into them.
        inputs: the shared copies of the inputs, to see whether the call changed them.
        machine: name of the GPU.
        source: of the candidate.
        overruns: what was written beside shared tensors.
    """
    given = [*judge_overruns(overruns), *judge_inputs(problem, case, inputs)]
    told = answer.get("changed")
    given += left_changed(told if isinstance(told, list) else [])
    forms, unreadable = _forms(case, answer)
    if unreadable is not None:
        return [*given, unreadable], None
    leaves = [leaf_of(tensor, form) for tensor, form in zip(got, forms, strict=True)]
    compared, check = judge_leaves(problem.task, case, leaves, machine=machine, source=source)
    beside = [finding for leaf in leaves if leaf.device.type != "meta" for finding in _read_beside(leaf)]
    return [*given, *beside, *compared, *judge_form(problem, case, forms)], check


def _forms(case: Case, answer: dict[str, Any]) -> tuple[list[dict[str, Any]], Finding | None]:
    """The forms of an answer's leaves, or what is wrong with its structure."""
    forms, structure = answer.get("leaves"), answer.get("structure")
    if not isinstance(structure, str) or not isinstance(forms, list) or not all(map(readable, forms)):
        return [], Finding(kind="exited", message="the process gave no readable answer")
    strange = sorted({str(form["strange"]) for form in forms if "strange" in form})
    if strange:
        message = f"forward returns {', '.join(strange)} where the reference returns tensors"
        return [], Finding(kind="wrong_structure", message=message)
    if structure != case.structure or len(forms) != len(case.leaves):
        message = f"forward returns {structure} where the reference returns {case.structure} (* is a tensor)"
        return [], Finding(kind="wrong_structure", message=message)
    return forms, None


def readable(form: Any) -> bool:
    """Whether the worker's word on a leaf makes sense at all."""
    if not isinstance(form, dict) or "strange" in form:
        return isinstance(form, dict)
    shape, stride = form.get("shape"), form.get("stride")
    if not isinstance(shape, list) or not isinstance(stride, list) or len(shape) != len(stride):
        return False
    sizes = all(type(n) is int and 0 <= n < 1 << 40 for n in (*shape, *stride))
    return sizes and isinstance(form.get("dtype"), str) and form["dtype"] in exchange.DTYPES


def leaf_of(tensor: torch.Tensor, form: dict[str, Any]) -> torch.Tensor:
    """The judge's buffer, or a tensor of the answer's form alone where that is wrong."""
    if form["shape"] == list(tensor.shape) and form["dtype"] == exchange.dtype_name(tensor):
        return tensor
    return torch.empty(form["shape"], dtype=exchange.DTYPES[form["dtype"]], device="meta")


def _read_beside(leaf: torch.Tensor) -> list[Finding]:
    """What an answer holds of the bands round shared tensors."""
    mask = from_a_band(leaf)
    if not bool(mask.any()):
        return []
    first = tuple(int(i) for i in mask.nonzero()[0])
    return [
        Finding(
            kind="out_of_bounds",
            message=f"{int(mask.sum())} of {leaf.numel()} elements hold what lies beside an input, not in it; first at "
            f"{list(first)}",
            cure="mask every load; look at offsets that may pass the end of a tensor",
        )
    ]
