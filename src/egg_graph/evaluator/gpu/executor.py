"""Carry out groups of calls on a GPU, in memory that the judge owns, and judge every answer.

A forward may keep an answer by the address, the identity or the version of its inputs, replay a CUDA graph over memory
of another call, fold weights when it is constructed, or hand out one buffer twice. Each is right once. So the inputs
change where they lie (same tensors, same addresses, no new version), come back elsewhere, and answers are compared
with what was asked, with earlier answers, and, later, with themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from egg_graph.evaluator.device.access import give_way
from egg_graph.evaluator.evidence.findings import rejecting
from egg_graph.evaluator.gpu.answers import (
    arena,
    load,
    poisoned_targets,
    received,
    refill,
    share_inputs,
    share_state,
    source_of,
)
from egg_graph.evaluator.gpu.arena import ALIGNMENT, Arena
from egg_graph.evaluator.gpu.spread import Spread, same_answers
from egg_graph.evaluator.gpu.worker_session import CandidateFailed, WorkerSession
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.comparison import (
    VALUES,
    form_alone,
    judge_answer,
    judge_leaves,
    overwritten,
    readable,
    stride_notes,
    weights_changed,
)
from egg_graph.evaluator.problem.kernelbench_criterion import tolerance_of
from egg_graph.evaluator.problem.outcome import Outcome
from egg_graph.evaluator.problem.plan import Call, Group, in_leftovers
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.wire.exchange import dtype_name
from egg_graph.evaluator.wire.poison import poison_
from egg_graph.schema import Check, Finding

SHORT_PART = 0.5
"""Return the judge's cached memory to the GPU before a candidate runs while less than this fraction is free."""


@dataclass(frozen=True)
class Placed:
    """The judge's copies of a call's inputs, and the forms by which the worker opens them."""

    copies: list[torch.Tensor]
    forms: list[Any]


@dataclass
class GpuExecutor:
    """Makes calls of one candidate.

    Args:
        session: of the candidate.
        problem: the task under judgement.
        machine: name of the GPU.
    """

    session: WorkerSession
    problem: Problem
    machine: str

    def carry_out(self, group: Group) -> Outcome:
        """Make the calls of a group until an answer is wrong.

        Raises:
            CandidateFailed: if a call does not come back.
            torch.OutOfMemoryError: if the judge's part does not fit.
        """
        give_way()
        _return_cached_memory()
        with arena(self.session) as weights, arena(self.session) as shared:
            if group.loading == "module":
                self.session.ask("load", **load(group.calls[0].case, self.problem, weights))
            elif group.loading == "weights":
                self.session.ask("reload", state=share_state(group.calls[0].case, self.problem, weights))
            with ExitStack() as holding:
                run = GroupRun(self.session, self.problem, self.machine, group, shared, holding)
                for call in group.calls:
                    if not run.make(call):
                        break
                run.conclude()
        if group.loading == "weights":
            return self._after_reload(group, run.outcome)
        return run.outcome

    def _after_reload(self, group: Group, reloaded: Outcome) -> Outcome:
        """A module that answers wrongly after weights were loaded ignores them, if a new module answers right."""
        if not reloaded.failed:
            reloaded.notes.append("so with weights loaded later")
            return reloaded
        fresh = self.carry_out(replace(group, loading="module"))
        if fresh.failed:
            return Outcome(fresh.findings)
        return Outcome([_stale(reloaded.findings[0]), *reloaded.findings])


@dataclass
class GroupRun:
    """The calls of one group, each judged."""

    session: WorkerSession
    problem: Problem
    machine: str
    group: Group
    shared: Arena
    holding: ExitStack
    """Holds the tensors of the call's case."""
    outcome: Outcome = field(default_factory=Outcome)
    right: list[tuple[str, Case, list[torch.Tensor]]] = field(default_factory=list)
    """Right answers so far: the call in words, its case, and the judge's buffers (none for a transient case)."""
    spare: tuple[list[torch.Tensor], list[dict[str, Any]]] | None = None
    """Buffers for the answers to transient cases, and their forms: each call's answer takes the place of the last."""
    held: Case | None = None
    """The case whose tensors are held."""
    spread: Spread = field(default_factory=Spread)
    """Of the answers of a group of repeats."""
    places: list[Placed] = field(default_factory=list)
    """Where the inputs of the calls so far lie."""
    occupant: Case | None = None
    """Case whose inputs lie in the last place."""
    loaded: dict[int, Case] = field(default_factory=dict)
    """By instance of `ModelNew`, the case whose weights it holds."""

    def make(self, call: Call) -> bool:
        """Make one call; whether its answer, and what it leaves behind, is right."""
        try:
            self._hold(call.case)
            if call.section == "other_uses":
                self._prepare_use(call)
            right = self._call(call, *self._inputs(call))
        except CandidateFailed as failure:
            if call.section != "other_uses":
                raise
            where = f"{failure.finding.where}; {call.what}".removeprefix("; ")
            raise CandidateFailed(failure.finding.model_copy(update={"where": where}), failure.log) from failure
        if not right:
            if call.section == "other_uses":
                self.outcome.findings = _with_cure(self.outcome.findings, call)
            return False
        if call.section == "other_uses":
            self.outcome.notes.append(call.what)
            return True
        return self._leaves_nothing_behind(call)

    # ------------------------------------------------------------------------------------------ module and inputs

    def _hold(self, case: Case) -> None:
        """Hold the tensors of one case, and let go of those of the case before."""
        if case is not self.held:
            self.holding.close()
            if case.transient:
                torch.cuda.empty_cache()
            self.held = self.holding.enter_context(case.held())

    def _prepare_use(self, call: Call) -> None:
        """Turn to the module that a call uses, in its mode and with its weights."""
        manner, last = call.manner, self.loaded.get(call.manner.module)
        first = self.group.calls[0].case
        self.session.ask(
            "turn",
            module=manner.module,
            evaluating=manner.evaluating,
            gradients=manner.gradients,
            scribbled=manner.scribbled,
            construction=self.problem.construction(first),
        )
        if last is None or last.updates or call.case.state is not last.state:
            state = share_state(call.case, self.problem, self.shared)
            self.session.ask("reload", state=state, in_place=manner.in_place)

    def _inputs(self, call: Call) -> tuple[Placed, bool]:
        """Put the inputs of a call in their place; whether the worker makes new tensors over it."""
        self.loaded[call.manner.module] = call.case
        if call.placement == "new" or not self.places:
            place, anew = _as_used(Placed(*share_inputs(call.case, self.shared, self.problem)), call), True
        else:
            place, anew = self.places[0 if call.placement == "first" else -1], call.placement == "first"
            if call.case is not self.occupant or call.placement == "first":
                refill(place.copies, call.case)
        if call.placement == "first":
            self.shared.fill_bands("large")
        self.places.append(place)
        self.occupant = call.case
        return place, anew

    # ------------------------------------------------------------------------------------------------- one answer

    def _call(self, call: Call, place: Placed, anew: bool) -> bool:
        """Ask for one forward on what lies at a place; whether the answer is right."""
        case = call.case
        _return_cached_memory(case.transient)  # making and comparing answers may have left gigabytes in it
        self.session.ask("inputs", seed=case.forward_seed, **({"inputs": place.forms} if anew else {}))
        targets, forms = self._targets(case)
        options = self._options(call) if self.group.several else {}
        told = self.session.ask("call", outputs=forms, **options)
        findings, check = self._judged(case, told, targets, place)
        if self.group.kind == "first" and self.outcome.kernelbench is None:
            self.outcome.kernelbench = tolerance_of(case, targets, self.problem.task.precision)
        if call.section == "other_inputs":
            findings = [_on_family(finding, case.family) for finding in findings]
        if rejecting(findings):
            self.outcome.findings += self._explained(findings, case, targets, place, call.what)
            return False
        self.outcome.findings += findings
        if check is not None:
            self.outcome.checks.append(check)
        if self.group.several:
            notes = stride_notes(case, told["leaves"])
            self.outcome.notes += [note for note in notes if note not in self.outcome.notes]
            self.right.append((call.what, case, [] if case.transient else targets))
            if self.group.kind == "repeats":
                self.spread.add(targets)
        return True

    def _targets(self, case: Case) -> tuple[list[torch.Tensor], list[dict[str, Any]]]:
        """Poisoned buffers for an answer, and their forms; those of a transient case serve every call."""
        if not case.transient:
            return poisoned_targets(case, self.shared)
        if self.spare is None or [x.shape for x in self.spare[0]] != [leaf.expected.shape for leaf in case.leaves]:
            self.spare = poisoned_targets(case, self.shared)
            return self.spare
        for target in self.spare[0]:
            poison_(target)
        torch.cuda.synchronize()
        return self.spare

    def _options(self, call: Call) -> dict[str, Any]:
        """How the worker calls, where several answers are looked at together."""
        first = call is self.group.calls[0]
        leftovers = in_leftovers(self.problem, call.what, call.case.seed, first=first)
        return {"keep": not call.case.transient, "leftovers": leftovers}

    def _judged(
        self, case: Case, told: dict[str, Any], targets: Sequence[torch.Tensor], place: Placed
    ) -> tuple[list[Finding], Check | None]:
        source, overruns = source_of(self.session), self.shared.overruns()
        answer = received(self.problem, case, told, targets, place.copies, self.machine, source, overruns)
        return judge_answer(self.problem, case, answer)

    # ------------------------------------------------------------------------------------------- why it is wrong

    def _explained(
        self, findings: list[Finding], case: Case, targets: list[torch.Tensor], place: Placed, what: str
    ) -> list[Finding]:
        """The findings of a wrong answer, led by one that says more where there is one."""
        if not self.group.several or not any(finding.kind in VALUES for finding in findings):
            return findings
        try:
            more = self._late(case, place) or self._reads_beside(case, targets)
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

    def _late(self, case: Case, place: Placed) -> Finding | None:
        """Right once the whole device is idle, and not for whoever works on the stream that forward was called on."""
        if case.transient:  # nobody holds its answers
            return None
        later, forms = poisoned_targets(case, self.shared)
        told = self.session.ask("held", back=1, outputs=forms)
        if rejecting(self._judged(case, told, later, place)[0]):
            return None
        return Finding(
            kind="late_output",
            message="the answer is complete only after forward has returned, on no stream that the caller waits for",
            cure="work on the current stream, or let it wait for the other one (current_stream().wait_stream(other))",
        )

    def _reads_beside(self, case: Case, targets: Sequence[torch.Tensor]) -> Finding | None:
        """The same bytes beside the inputs give the same answer, and other bytes another one."""
        if case.transient:
            return None
        content = self.shared.content
        if not same_answers(targets, self._asked_again(case)):
            return None
        self.shared.fill_bands("large" if content == "nan" else "nan")
        other = self._asked_again(case)
        steady = not same_answers(targets, other) and same_answers(other, self._asked_again(case))
        self.shared.fill_bands(content)
        if not steady or not same_answers(targets, self._asked_again(case)):
            return None  # what hangs on the order of programs differs from call to call
        return Finding(
            kind="out_of_bounds",
            message="the answer changes with what lies beside the inputs in memory: a kernel reads out of bounds",
            cure="mask every load, and give `other` what does not change the result",
        )

    def _asked_again(self, case: Case) -> list[torch.Tensor]:
        targets, forms = poisoned_targets(case, self.shared)
        self.session.ask("call", outputs=forms)
        return targets

    def _is_answer_to(self, asked: Case, answer: Sequence[torch.Tensor], got: Sequence[torch.Tensor]) -> bool:
        if [(x.shape, x.dtype) for x in answer] != [(x.shape, x.dtype) for x in got]:
            return False
        if same_answers(answer, got):
            return True
        findings, _ = judge_leaves(self.problem.task, asked, got, machine=self.machine, source="")
        return not rejecting(findings)

    # ------------------------------------------------------------------------------------ what calls leave behind

    def _leaves_nothing_behind(self, call: Call) -> bool:
        """After the first call the weights are as they should be; after the second, so is the first answer."""
        if self.group.kind != "first" or len(self.right) > 2:
            return True
        return self._state_is_right(call.case) if len(self.right) == 1 else self._held_is_unchanged()

    def _held_is_unchanged(self) -> bool:
        """Whether the answer of the call before the last is still what it was."""
        _, case, answer = self.right[-2]
        if case.transient:
            return True
        now, forms = poisoned_targets(case, self.shared)
        self.session.ask("held", back=2, outputs=forms)
        if case.aliases or same_answers(answer, now):
            return True  # what aliases an input changes with it
        self.outcome.findings.append(overwritten("the output"))
        return False

    def _state_is_right(self, case: Case) -> bool:
        """Whether parameters and buffers are as one forward of the reference leaves them."""
        if not case.state:
            return True
        buffers = {name: self.shared.empty(x.shape, x.dtype, name=f"weight {name}") for name, x in case.state.items()}
        told = self.session.ask("state", outputs={name: form for name, (_, form) in buffers.items()})
        forms = _state_forms(told.get("state"), buffers)
        after = {name: _state_value(buffers[name][0], form) for name, form in forms.items()}
        findings = weights_changed(case, after)
        self.outcome.findings += findings
        return not findings

    def conclude(self) -> None:
        """Add what the calls of the group prove together."""
        done = len(self.right)
        if self.group.kind == "repeats" and self.outcome.failed:
            finding = _unsteady(done, len(self.group.calls), self.outcome.findings[0])
            self.outcome = Outcome([finding, *self.outcome.findings])
        elif self.group.kind == "repeats":
            self.outcome.notes.append(str(self.spread))
        elif self.group.kind == "first" and done == len(self.group.calls) > 1 and not self.outcome.failed:
            self.outcome.notes.append("so on other inputs at the same addresses and on the same ones at others")


def _on_family(finding: Finding, family: str) -> Finding:
    """A finding that says on which inputs; what is not preserved says so itself."""
    if finding.kind == "not_preserved":
        return finding
    return finding.model_copy(update={"message": f"on {family} inputs: {finding.message}"})


def _return_cached_memory(large: bool = False) -> None:
    """Leave the memory that PyTorch only keeps for reuse in the judge to the candidate, where it may need it."""
    free, total = torch.cuda.mem_get_info()
    if large or free < SHORT_PART * total:
        torch.cuda.empty_cache()


def _as_used(place: Placed, call: Call) -> Placed:
    """Inputs as a call has them: views that begin within a larger tensor, or one tensor for several."""
    forms = [_view(form) for form in place.forms] if call.manner.views else list(place.forms)
    for number in call.manner.tied:
        forms[number] = forms[call.manner.tied[0]]
    return Placed(place.copies, forms)


def _view(form: Any) -> Any:
    """The form of an input whose storage begins in the band before it."""
    if not isinstance(form, dict) or "tensor" not in form:
        return form
    return {"tensor": {**form["tensor"], "room": ALIGNMENT}}


def _with_cure(findings: list[Finding], call: Call) -> list[Finding]:
    """The findings of a wrong answer with the cure of this use of the module.

    After weights changed in place, the answer of before is that of other weights: no answer was kept.
    """
    if call.manner.in_place:
        findings = [finding for finding in findings if finding.kind != "replayed_output"]
    values = ("wrong_values", "non_finite", "unwritten_output", "wrong_shape", "out_of_bounds")
    return [
        finding.model_copy(update={"cure": call.cure, "message": f"{call.what}: {finding.message}"})
        if finding.kind in values and call.what not in finding.message
        else finding
        for finding in findings
    ]


def _state_value(buffer: torch.Tensor, form: dict[str, Any]) -> torch.Tensor | str:
    """A parameter or buffer as the worker left it; words where it is no plain tensor any more."""
    if "strange" in form:
        return str(form["strange"])
    if form["shape"] == list(buffer.shape) and form["dtype"] == dtype_name(buffer):
        return buffer
    return form_alone(form)


def _state_forms(told: Any, names: Collection[str]) -> dict[str, dict[str, Any]]:
    """Forms of those parameters and buffers, as the worker told them.

    Raises:
        CandidateFailed: if that makes no sense.
    """
    if not isinstance(told, dict) or not all(form and readable(form) for form in told.values()):
        raise CandidateFailed(Finding(kind="exited", message="the process gave no readable state"), "")
    return {name: form for name, form in told.items() if name in names}


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


def _unsteady(number: int, count: int, finding: Finding) -> Finding:
    return Finding(
        kind="not_deterministic",
        message=f"right before, and wrong in call {number + 1} of {count} on the same inputs: {finding.message}",
        where=finding.where,
        cure="look for a race between programs, an accumulator that is not set to zero, or memory read unwritten",
    )
