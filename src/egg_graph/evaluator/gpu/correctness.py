"""The rungs of right answers on a GPU: every shape, other inputs, other uses, and repeats for finalists."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch

from egg_graph.evaluator.device.access import GpuAccess
from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.evidence.findings import reason_of
from egg_graph.evaluator.evidence.rungs import RungName
from egg_graph.evaluator.evidence.shape_refusals import is_alignment_fault, refusal_statement, shape_refusal
from egg_graph.evaluator.evidence.statements import count, error_statement, left_out_statement, show
from egg_graph.evaluator.gpu.executor import GpuExecutor
from egg_graph.evaluator.gpu.worker_session import CandidateFailed, WorkerSession
from egg_graph.evaluator.problem.case import Case, Unevaluable
from egg_graph.evaluator.problem.case_builder import with_other_inputs
from egg_graph.evaluator.problem.families import families_of
from egg_graph.evaluator.problem.family_case import build_family_case
from egg_graph.evaluator.problem.outcome import Outcome
from egg_graph.evaluator.problem.plan import (
    ANOTHER_SHAPE,
    Group,
    family_groups,
    first_group,
    repeat_group,
    seed_group,
    service_group,
    single_group,
)
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.problem.reference import load_reference, one_line
from egg_graph.schema import BadInput, Finding, FindingKind

AT_ONE_SHAPE: frozenset[FindingKind] = frozenset(
    {"wrong_values", "non_finite", "unwritten_output", "wrong_shape", "out_of_bounds", "exception", "crashed"}
)
"""Findings at one shape that a candidate made for another shape gives."""
FURTHER = "further_"
"""Prefix of the names of the shapes that a task adds; they may be as large as the full one."""
AT_FULL_SHAPE = ("outlier", "negated", "large", "tiny")
"""Input families of which the first that a problem can be judged on is tried at full shape."""


def reduced_names(problem: Problem) -> list[str]:
    """Name of the reduced shape at which a kernel is judged on a GPU: the awkward one, or the shrunk one where there is
    no other; none where that is the full one."""
    if "awkward" in problem.shapes:
        return ["awkward"]
    return ["shrunk"] if problem.shapes["shrunk"] else []


@dataclass
class GpuCorrectness:
    """The rungs of right answers for one candidate.

    Args:
        session: of the candidate; a rung that fails may end it.
        problem: the task under judgement.
        builder: gets the rungs.
        machine: name of the GPU.
        another: opens a fresh session of the same candidate.
        access: reserves memory for the full shape, where that is called before its turn.
        interpreted: what the interpreter finds at a shape, without values.
    """

    session: WorkerSession
    problem: Problem
    builder: EvaluationBuilder
    machine: str
    another: Callable[[], WorkerSession]
    access: GpuAccess = field(default_factory=GpuAccess)
    interpreted: Callable[[str], Sequence[Finding]] = lambda shape: ()
    unjudged: dict[str, str] = field(default_factory=dict)
    """By shape, why several calls were not compared there."""
    refused: dict[str, Finding] = field(default_factory=dict)
    """By shape, how the candidate refuses it."""
    aligned: list[str] = field(default_factory=list)
    """Aligned shapes that were judged in the place of refused ones."""
    families: list[str] = field(default_factory=list)
    """Families of inputs on which it is right, in words."""
    families_seconds: float = 0.0
    """What these took [s]."""

    def at_reduced_shapes(self) -> bool:
        """One rung per reduced shape, other inputs and other uses; False where one fails. Takes little memory."""
        if not all(self.at(name) for name in reduced_names(self.problem)) or not self._aligned_instead():
            return False
        return self.other_inputs_reduced() and self.other_uses()

    def at_full_shape(self) -> bool:
        """One rung per further shape and the full one, and other inputs there; False where one fails."""
        names = (*(name for name in self.problem.shapes if name.startswith(FURTHER)), "full")
        return all(self.at(name) for name in names) and self.other_inputs_at_full()

    def living_session(self) -> WorkerSession:
        """The candidate's session; a new one if the last has ended. Raises as `another`."""
        if not self.session.alive:
            self.session = self.another()
        return self.session

    def close(self) -> None:
        """Close the session."""
        self.session.close()

    # ----------------------------------------------------------------------------------------------- at one shape

    def at(self, name: str) -> bool:
        """One rung: every seed of one shape."""
        started = time.monotonic()
        outcome, against = Outcome(), ""
        try:
            for number, case in enumerate(self._cases(name)):
                against = case.against
                self._add(self._seed(name, number, case), outcome)
                if outcome.failed:
                    return self._refuses(name, outcome.findings) or self._failed_at(name, outcome.findings, started)
        except CandidateFailed as failure:
            return self._refuses(name, [failure.finding]) or self._failed_at(
                name, [failure.finding], started, failure.log
            )
        except Unevaluable as error:
            if name == "full":
                self.builder.fail("correctness", [Finding(kind=error.kind, message=str(error))], shape=name)
                return False
            why = f"not checked at {name} shape: {error}"
            self.builder.skipped("correctness", why, time.monotonic() - started, shape=name)
            return True
        except torch.OutOfMemoryError as error:
            self._too_large("correctness", f"not checked at {name} shape", error, started, shape=name)
            return True
        self.builder.findings += outcome.findings
        statement = self._statement(name, outcome, against)
        self.builder.passed("correctness", statement, time.monotonic() - started, shape=name)
        return True

    def _cases(self, name: str) -> Iterable[Case]:
        return self.problem.full_cases() if name == "full" else self.problem.cases(name)

    def _seed(self, name: str, number: int, case: Case) -> Outcome:
        """The calls of one seed. Where memory does not hold several answers, one call is made alone."""
        if number:
            return self._carry_out(seed_group(number, case))
        try:
            return self._carry_out(first_group(case, self._other(name, case)))
        except torch.OutOfMemoryError as error:
            self.unjudged[name] = f"the GPU's memory does not hold the answers of several calls ({one_line(error)})"
        torch.cuda.empty_cache()  # after the handler, whose error holds the tensors of its traceback
        return self._carry_out(single_group(case))

    def _carry_out(self, group: Group, session: WorkerSession | None = None) -> Outcome:
        return GpuExecutor(session or self.session, self.problem, self.machine).carry_out(group)

    def _other(self, name: str, case: Case) -> Case | None:
        """The same weights and other inputs; kept for the next candidate if small."""
        key = f"other/{name}"
        if key in self.problem.cached_cases:
            return self.problem.cached_cases[key][0]
        seed, device = self.problem.seed(key, 0), self.problem.device
        reference = load_reference(self.problem.task.reference, case.overrides)
        try:
            other = with_other_inputs(
                case, reference, self.problem.task.precision, name=case.name, seed=seed, device=device
            )
        except (Unevaluable, BadInput) as error:
            self.unjudged[name] = f"there are no other inputs for the same module ({one_line(error)})"
            return None
        self.problem.keep(key, other, like=case)
        return other

    def _add(self, more: Outcome, outcome: Outcome) -> None:
        outcome.add(more)
        self.builder.checks += more.checks
        self.builder.kernelbench = more.kernelbench or self.builder.kernelbench  # the full shape comes last

    def _statement(self, name: str, outcome: Outcome, against: str) -> str:
        seeds = {check.seed for check in outcome.checks}
        missing = [f"several calls not compared: {self.unjudged[name]}"] if name in self.unjudged else []
        return (
            f"right on {count(len(seeds), 'seed')} in {count(len(outcome.checks), 'call')} at {name} shape on "
            f"{self.machine}: {error_statement(outcome.checks, against, self.problem.task.precision)}; "
            "every output element written, inputs, weights and the memory beside them unchanged"
            + "".join(f"; {note}" for note in [*outcome.notes, *missing])
        )

    def _too_large(
        self, rung: RungName, what: str, error: torch.OutOfMemoryError, started: float, *, shape: str = ""
    ) -> None:
        torch.cuda.empty_cache()
        why = f"{what}: {self.problem.memory_plan} ({one_line(error)})"
        self.builder.skipped(rung, why, time.monotonic() - started, shape=shape)
        self.builder.short_of_memory = why

    # ----------------------------------------------------------------------------------------- where it refuses some

    def _refuses(self, name: str, findings: list[Finding]) -> bool:
        """Note a candidate that says itself that a shape is not for it; not the full one, nor one the task names."""
        if name == "full" or name.startswith(FURTHER):
            return False
        refusal = shape_refusal(findings)
        if refusal is None and is_alignment_fault(findings):
            refusal = shape_refusal(self.interpreted(name))
        if refusal is None:
            return False
        self.refused[name] = refusal
        if not self.session.alive:
            self.session = self.another()
        return True

    def _aligned_instead(self) -> bool:
        """Judge an aligned shape beside the full one, in the place of refused ones; False if it refuses those, too."""
        if not self.refused:
            return True
        names = [name for name in self.problem.aligned_shapes if self.problem.aligned_shapes[name]]
        if not self._right_at_one_of(names):
            return False
        if not self.aligned:
            with self.access.at_full_shape():
                if not self._right_at_one_of(self.problem.halved_shapes):
                    return False
        name, finding = next(iter(self.refused.items()))
        if not self.aligned:
            return self._failed_at(name, [finding], time.monotonic())
        words = refusal_statement(self.problem.sizes(name), finding)
        self.builder.skipped("correctness", words, shape=name)
        return True

    def _right_at_one_of(self, names: Iterable[str]) -> bool:
        """Judge aligned shapes until one is not refused; False if the candidate is wrong there."""
        for name in names:
            if not self.at(name):
                return False
            if name not in self.refused:
                self.aligned.append(name)
                break
        return True

    # ------------------------------------------------------------------------------------------ made for one shape

    def _failed_at(self, name: str, findings: list[Finding], started: float, log: str = "") -> bool:
        """A failed shape; a candidate that is right at full shape alone is told as that."""
        if name != "full" and findings[0].kind in AT_ONE_SHAPE and self._right_at_full_shape():
            shapes = show(self.problem.sizes(name))
            findings = [
                Finding(
                    kind="specialised_to_shape",
                    message=f"right at full shape, and not at {name} shape {shapes}: {reason_of(findings[0])}",
                    where=f"{name} shape {shapes}",
                    cure="take sizes and strides from the tensors; mask what a block holds beyond them",
                ),
                *findings,
            ]
        self.builder.fail("correctness", findings, time.monotonic() - started, log, shape=name)
        return False

    def _right_at_full_shape(self) -> bool:
        with self.access.at_full_shape():
            return self._called_right_at_full_shape()

    def _called_right_at_full_shape(self) -> bool:
        try:
            group = single_group(next(iter(self.problem.full_cases())))
            if self.session.alive:  # wrong values do not end it, and a new process costs seconds
                return not self._carry_out(group).failed
            session = self.another()
            try:
                return not self._carry_out(group, session).failed
            finally:
                session.close()
        except (CandidateFailed, Unevaluable):
            return False
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return False

    # ----------------------------------------------------------------------------------------------- other inputs

    def other_inputs_reduced(self) -> bool:
        """First part of one rung: inputs of all other families at a reduced shape."""
        return self._one_rung("other_inputs", "other inputs not all checked", self._families_right_reduced)

    def other_inputs_at_full(self) -> bool:
        """The rest of that rung: inputs of one other family at full shape."""
        if self.builder.outcome_of("other_inputs") is not None:  # there was not even memory for a reduced shape
            return True
        return self._one_rung("other_inputs", "other inputs not all checked", self._family_right_at_full)

    def other_uses(self) -> bool:
        """One rung: the module at a reduced shape, called as one in service is."""
        return self._one_rung("other_uses", "other uses not all tried", self._other_uses)

    def repeats(self) -> bool:
        """One rung for finalists: the same call several times."""
        return self._one_rung("repeats", "not repeated", self._repeats)

    def _one_rung(self, rung: RungName, too_large: str, judge: Callable[[float], bool]) -> bool:
        """Judge a rung; `judge` gets the time when it began. False if the candidate fails it."""
        started = time.monotonic()
        try:
            return judge(started)
        except Unevaluable as error:
            self.builder.skipped(rung, f"not tried: {error}", time.monotonic() - started)
        except torch.OutOfMemoryError as error:
            self._too_large(rung, too_large, error, started)
        except CandidateFailed as failure:
            self.builder.fail(rung, [failure.finding], time.monotonic() - started, failure.log)
            return False
        return True

    def _families_right_reduced(self, started: float) -> bool:
        return self._families_right(self._reduced, self._families_reduced(), started)

    def _family_right_at_full(self, started: float) -> bool:
        started -= self.families_seconds
        if not self._families_right("full", self._family_at_full(), started):
            return False
        if self.families:
            statement = f"right on inputs that are {' and '.join(self.families)}"
            self.builder.passed("other_inputs", statement, time.monotonic() - started)
            if dropped := self.problem.dropped_families.get(self._reduced):
                self.builder.skipped("inputs_left_out", left_out_statement("not judged on inputs", dropped))
        else:
            self.builder.skipped("other_inputs", f"no other family of inputs can be judged: {self._dropped()}")
        return True

    def _families_right(self, shape: str, cases: list[Case], started: float) -> bool:
        """One call per family at one shape; False where one goes wrong."""
        right = []
        for group in family_groups(cases):
            outcome = self._carry_out(group)
            if not self._decided("other_inputs", outcome, started):
                return False
            right += [check.family for check in outcome.checks]
        if right:
            self.families.append(f"{', '.join(right)} at {shape} shape")
        self.families_seconds = time.monotonic() - started
        return True

    def _other_uses(self, started: float) -> bool:
        missing = dict(self.problem.uses(self._reduced).left_out)
        try:
            outcome = self._carry_out(service_group(self.problem, self._reduced))
        except CandidateFailed as failure:
            if self.problem.uses(self._reduced).resized is None or not self._refuses_other_sizes(failure.finding):
                raise
            missing[ANOTHER_SHAPE] = f"it refuses them: {reason_of(failure.finding)}"
            self.session = self.another()
            outcome = self._carry_out(service_group(self.problem, self._reduced, at_one_shape=True))
        if not self._decided("other_uses", outcome, started):
            return False
        self.builder.passed(
            "other_uses", f"right used otherwise: {'; '.join(outcome.notes)}", time.monotonic() - started
        )
        if missing:
            self.builder.skipped("uses_left_out", left_out_statement("not tried", missing))
        return True

    def _refuses_other_sizes(self, finding: Finding) -> bool:
        """Whether a failure in service is a refusal of other sizes; the fault of an access that cannot be aligned is
        one where the candidate has refused a shape before."""
        return shape_refusal([finding]) is not None or (bool(self.refused) and is_alignment_fault([finding]))

    def _repeats(self, started: float) -> bool:
        outcome = self._carry_out(repeat_group(next(iter(self.problem.full_cases()))))
        if not self._decided("repeats", outcome, started):
            return False
        self.builder.passed("repeats", "; ".join(outcome.notes), time.monotonic() - started)
        return True

    def _decided(self, rung: RungName, outcome: Outcome, started: float) -> bool:
        """Enter checks, and the failed rung of a wrong answer; False if it is one."""
        self.builder.checks += outcome.checks
        if outcome.failed:
            self.builder.fail(rung, outcome.findings, time.monotonic() - started)
            return False
        self.builder.findings += outcome.findings
        return True

    @property
    def _reduced(self) -> str:
        if self.aligned:
            return self.aligned[0]
        return "awkward" if "awkward" in self.problem.shapes else "shrunk"

    def _families_reduced(self) -> list[Case]:
        name = self._reduced
        try:
            return self.problem.family_cases(name)
        except Unevaluable as error:
            self.problem.dropped_families.setdefault(name, {})["all"] = str(error)
            return []

    def _family_at_full(self) -> list[Case]:
        if "family/full" in self.problem.cached_cases:
            return self.problem.cached_cases["family/full"]
        case = next(iter(self.problem.full_cases()))
        if case.transient:  # the reduced shape shows what other numbers change
            return []
        applicable = families_of(case.inputs)
        dropped = self.problem.dropped_families.setdefault("full", {})
        for family in (name for name in AT_FULL_SHAPE if name in applicable):
            seed = self.problem.seed(f"full/{family}", 0)
            try:
                made = build_family_case(
                    case, self.problem.reference, self.problem.task.precision, family=family, seed=seed
                )
            except (Unevaluable, BadInput) as error:
                dropped[family] = str(error)
                continue
            self.problem.keep("family/full", made, like=case)
            return [made]
        return []

    def _dropped(self) -> str:
        reasons = [
            f"{family}: {why}" for dropped in self.problem.dropped_families.values() for family, why in dropped.items()
        ]
        return "; ".join(reasons)[:400] or "no input is free to change"
