"""Several calls of one loaded candidate in one process, so that what it keeps from one to the next comes to light.

A forward may keep an answer by the address, the identity or the version of its inputs, replay a CUDA graph over memory
of another call, fold weights when it is constructed, or hand out one buffer twice. Each is right once. So the inputs
change where they lie (same tensors, same addresses, no new version), come back elsewhere, and answers are compared
with what was asked, with earlier answers, and, later, with themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from egg_graph.evaluator.evidence.findings import rejecting
from egg_graph.evaluator.gpu.answers import (
    arena,
    check,
    check_loaded,
    judge_answer,
    leaf_of,
    load,
    poisoned_targets,
    readable,
    refill,
    share_inputs,
    share_state,
    source_of,
)
from egg_graph.evaluator.gpu.arena import Arena
from egg_graph.evaluator.gpu.conduct import reused
from egg_graph.evaluator.gpu.worker_session import CandidateFailed, WorkerSession
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.comparison import judge_leaves, same_bytes, stride_notes, weights_changed
from egg_graph.evaluator.problem.kernelbench_criterion import tolerance_of
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Check, Finding, FindingKind, Tolerance

VALUES: frozenset[FindingKind] = frozenset({"wrong_values", "non_finite", "unwritten_output", "precision_loss"})
"""Findings on the numbers of an answer."""
KEPT_PART = 1 / 16
"""Of the GPU's memory that an answer may take for the worker to hold on to it."""
REPEATS = 3


@dataclass
class Judged:
    """What some calls established."""

    findings: list[Finding] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What was seen beside right answers, in words."""
    kernelbench: Tolerance | None = None
    """KernelBench's word on the first answer."""

    @property
    def failed(self) -> bool:
        return bool(rejecting(self.findings))


@dataclass(frozen=True)
class Place:
    """Where the inputs of a call lie."""

    copies: list[torch.Tensor]
    forms: list[Any]


@dataclass
class Calls:
    """Calls of what is loaded, each judged."""

    session: WorkerSession
    problem: Problem
    machine: str
    shared: Arena
    judged: Judged = field(default_factory=Judged)
    right: list[tuple[str, Case, list[torch.Tensor]]] = field(default_factory=list)
    """Right answers so far: of which call, to what, and the judge's buffers."""

    def place(self, case: Case) -> Place:
        """The inputs of a case at addresses of their own."""
        return Place(*share_inputs(case, self.shared, self.problem))

    def call(self, case: Case, place: Place, what: str, *, anew: bool = True) -> bool:
        """One call on what lies at a place; whether its answer is right.

        Args:
            case: what lies there.
            place: of the inputs.
            what: words for this call.
            anew: whether the worker makes new tensors over the place, or uses those it has.
        """
        self.session.ask("inputs", seed=case.forward_seed, **({"inputs": place.forms} if anew else {}))
        targets, forms = poisoned_targets(case, self.shared)
        leftovers = self.problem.seed(f"{what}/memory", case.seed) % 2 == 1
        answer = self.session.ask("call", outputs=forms, keep=_may_keep(targets), leftovers=leftovers)
        findings, check = self._judge(case, answer, targets, place)
        if self.judged.kernelbench is None:
            self.judged.kernelbench = tolerance_of(case, targets, self.problem.task.precision)
        if rejecting(findings):
            self.judged.findings += self._explained(findings, case, targets, place, what)
            return False
        self.judged.findings += findings
        self.judged.notes += [note for note in stride_notes(case, answer["leaves"]) if note not in self.judged.notes]
        if check is not None:
            self.judged.checks.append(check)
        self.right.append((what, case, targets))
        return True

    def _judge(
        self, case: Case, answer: dict[str, Any], targets: Sequence[torch.Tensor], place: Place
    ) -> tuple[list[Finding], Check | None]:
        source, overruns = source_of(self.session), self.shared.overruns()
        return judge_answer(self.problem, case, answer, targets, place.copies, self.machine, source, overruns)

    # -------------------------------------------------------------------------------------------------- why it is wrong

    def _explained(
        self, findings: list[Finding], case: Case, targets: list[torch.Tensor], place: Place, what: str
    ) -> list[Finding]:
        """The findings of a wrong answer, led by one that says more where there is one."""
        if not any(finding.kind in VALUES for finding in findings):
            return findings
        try:
            more = self._late(case, targets, place) or self._reads_beside(case, targets)
        except CandidateFailed:  # wrong it is; why is not found out
            return findings
        if more is not None:
            return [more, *findings]
        for earlier, asked, answer in self.right:
            if asked is not case and self._is_answer_to(asked, answer, targets):
                return [_replayed(what, earlier, findings[0]), *findings]
        if self.right:
            return [f.model_copy(update={"message": f"{what}, after right answers: {f.message}"}) for f in findings]
        return findings

    def _late(self, case: Case, targets: list[torch.Tensor], place: Place) -> Finding | None:
        """Right once the whole device is idle, and not for whoever works on the stream that forward was called on."""
        if not _may_keep(targets):
            return None
        later, forms = poisoned_targets(case, self.shared)
        answer = self.session.ask("held", back=1, outputs=forms)
        if rejecting(self._judge(case, answer, later, place)[0]):
            return None
        return Finding(
            kind="late_output",
            message="the answer is complete only after forward has returned, on no stream that the caller waits for",
            cure="work on the current stream, or let it wait for the other one (current_stream().wait_stream(other))",
        )

    def _reads_beside(self, case: Case, targets: Sequence[torch.Tensor]) -> Finding | None:
        """The answer changes with what lies beside the inputs, and does not without."""
        content = self.shared.content
        if not self._same(targets, self._asked_again(case)):
            return None
        self.shared.fill_bands("large" if content == "nan" else "nan")
        changes = not self._same(targets, self._asked_again(case))
        self.shared.fill_bands(content)
        if not changes:
            return None
        return Finding(
            kind="out_of_bounds",
            message="the answer changes with what lies beside the inputs in memory: a kernel reads out of bounds",
            cure="mask every load, and give `other` what does not change the result",
        )

    def _asked_again(self, case: Case) -> list[torch.Tensor]:
        targets, forms = poisoned_targets(case, self.shared)
        self.session.ask("call", outputs=forms)
        return targets

    @staticmethod
    def _same(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> bool:
        return all(same_bytes(a, b) for a, b in zip(first, second, strict=True))

    def _is_answer_to(self, asked: Case, answer: Sequence[torch.Tensor], got: Sequence[torch.Tensor]) -> bool:
        if [(x.shape, x.dtype) for x in answer] != [(x.shape, x.dtype) for x in got]:
            return False
        if self._same(answer, got):
            return True
        findings, _ = judge_leaves(self.problem.task, asked, got, machine=self.machine, source="")
        return not rejecting(findings)

    # ------------------------------------------------------------------------------------------ what calls leave behind

    def check_held(self) -> bool:
        """Whether the answer of the call before the last is still what it was."""
        if len(self.right) < 2 or not all(_may_keep(answer) for _, _, answer in self.right[-2:]):
            return True
        _, case, answer = self.right[-2]
        now, forms = poisoned_targets(case, self.shared)
        self.session.ask("held", back=2, outputs=forms)
        if case.aliases or self._same(answer, now):
            return True  # what aliases an input changes with it
        self.judged.findings.append(reused("the output"))
        return False

    def check_state(self, case: Case) -> bool:
        """Whether parameters and buffers are as one forward of the reference leaves them."""
        if not case.state:
            return True
        buffers = {name: self.shared.empty(x.shape, x.dtype, name=f"weight {name}") for name, x in case.state.items()}
        answer = self.session.ask("state", outputs={name: form for name, (_, form) in buffers.items()})
        forms = _state_forms(answer.get("state"), buffers)
        after = {
            name: str(form["strange"]) if "strange" in form else leaf_of(buffers[name][0], form)
            for name, form in forms.items()
        }
        findings = weights_changed(case, after)
        self.judged.findings += findings
        return not findings


def several_calls(session: WorkerSession, problem: Problem, case: Case, other: Case | None, machine: str) -> Judged:
    """Load a case and call: on it, on other inputs in their place, and on the first again, elsewhere and there.

    Args:
        session: of the candidate.
        problem: of the task.
        case: whose weights are loaded.
        other: the same weights, other inputs of the same form; None where there are none.
        machine: name of the GPU.

    Raises:
        CandidateFailed: if a call does not come back.
        torch.OutOfMemoryError: if the judge's part does not fit.
    """
    with arena(session) as weights, arena(session) as shared:
        session.ask("load", **load(case, problem, weights))
        calls = Calls(session, problem, machine, shared)
        first = calls.place(case)
        if not (calls.call(case, first, "first call") and calls.check_state(case)) or other is None:
            return calls.judged
        refill(first.copies, other)
        if not calls.call(other, first, "other inputs where the first ones lay", anew=False) or not calls.check_held():
            return calls.judged
        second = calls.place(case)
        if not calls.call(case, second, "the first inputs at other addresses"):
            return calls.judged
        refill(first.copies, case)
        shared.fill_bands("large")
        if calls.call(case, first, "the first inputs where others lay in between"):
            calls.judged.notes.append("so on other inputs at the same addresses and on the same ones at others")
        return calls.judged


def check_reloaded(session: WorkerSession, problem: Problem, case: Case, machine: str) -> Judged:
    """Other weights for the module that is loaded, and one call. Raises as `several_calls`."""
    with arena(session) as shared:
        session.ask("reload", state=share_state(case, problem, shared))
        findings, found = check_loaded(session, problem, case, machine)
    if not rejecting(findings):
        return Judged(findings, [found] if found is not None else [], ["so with weights loaded later"])
    fresh, found = check(session, problem, case, machine)
    if rejecting(fresh):
        return Judged(fresh)
    return Judged([_stale(findings[0]), *findings])


def repeat(session: WorkerSession, problem: Problem, case: Case, machine: str) -> Judged:
    """The same call several times: each answer right, and how far they are apart. Raises as `several_calls`."""
    with arena(session) as weights, arena(session) as shared:
        session.ask("load", **load(case, problem, weights))
        calls = Calls(session, problem, machine, shared)
        place = calls.place(case)
        for number in range(REPEATS):
            if not calls.call(case, place, f"call {number + 1} of {REPEATS} on the same inputs", anew=number == 0):
                return Judged([_unsteady(number, calls.judged.findings[0]), *calls.judged.findings])
        calls.judged.notes.append(_spread([answer for _, _, answer in calls.right]))
        return calls.judged


def _state_forms(told: Any, names: Collection[str]) -> dict[str, dict[str, Any]]:
    """Forms of those parameters and buffers, as the worker told them.

    Raises:
        CandidateFailed: if that makes no sense.
    """
    if not isinstance(told, dict) or not all(map(readable, told.values())):
        raise CandidateFailed(Finding(kind="exited", message="the process gave no readable state"), "")
    return {name: form for name, form in told.items() if name in names}


def _may_keep(answer: Sequence[torch.Tensor]) -> bool:
    """Whether the worker may hold on to an answer of this size: a candidate must not run out of memory for it."""
    nbytes = sum(x.numel() * x.element_size() for x in answer)
    return nbytes <= KEPT_PART * float(torch.cuda.get_device_properties(0).total_memory)


def _spread(answers: Sequence[Sequence[torch.Tensor]]) -> str:
    """How far answers to one question are apart, in words."""
    first, others = answers[0], answers[1:]
    if all(same_bytes(a, b) for other in others for a, b in zip(first, other, strict=True)):
        return f"{len(answers)} calls on the same inputs answer alike, bit for bit"
    apart = max(
        float((a.double() - b.double()).abs().nan_to_num(0.0).max())
        for other in others
        for a, b in zip(first, other, strict=True)
        if a.numel() and not a.is_complex()
    )
    return f"answers differ between runs by at most {apart:.1e}: atomics?"


def _replayed(what: str, earlier: str, finding: Finding) -> Finding:
    return Finding(
        kind="replayed_output",
        message=f"{what}: the answer is that of an earlier call ({earlier}), not of these inputs",
        where=finding.where,
        cure="compute from the inputs at hand in every forward; keep no answer by their address, identity or shape",
    )


def _stale(finding: Finding) -> Finding:
    return Finding(
        kind="wrong_values",
        message="the answer ignores the weights that were loaded after the first call: it is right with the same "
        f"weights in a new module ({finding.message})",
        where=finding.where,
        cure="read parameters in forward; what is precomputed from them (a packed or transposed weight) must be made "
        "anew when they change (their _version)",
    )


def _unsteady(number: int, finding: Finding) -> Finding:
    return Finding(
        kind="not_deterministic",
        message=f"right before, and wrong in call {number + 1} of {REPEATS} on the same inputs: {finding.message}",
        where=finding.where,
        cure="look for a race between programs, an accumulator that is not set to zero, or memory read unwritten",
    )
