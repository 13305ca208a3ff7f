"""Right answers on a GPU, shape by shape: every seed, several calls of one module, other weights, other inputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.evidence.findings import reason_of, rejecting
from egg_graph.evaluator.evidence.statements import count, show, used_statement
from egg_graph.evaluator.gpu import answers as gpu_answers
from egg_graph.evaluator.gpu.calls import Judged, check_reloaded, repeat, several_calls
from egg_graph.evaluator.gpu.service import calls_in_service
from egg_graph.evaluator.gpu.worker_session import CandidateFailed, WorkerSession
from egg_graph.evaluator.problem.case import Case, Unevaluable, family_case, with_other_inputs
from egg_graph.evaluator.problem.families import families_of
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.problem.reference import load_reference, one_line
from egg_graph.schema import BadInput, Finding, FindingKind

AT_ONE_SHAPE: frozenset[FindingKind] = frozenset(
    {"wrong_values", "non_finite", "unwritten_output", "wrong_shape", "out_of_bounds", "exception", "crashed"}
)
"""What fails at one shape alone where a candidate is made for another."""
AT_FULL_SHAPE = ("outlier", "negated", "large", "tiny")
"""Families of inputs of which the first that a problem can be judged on is tried at full shape."""


@dataclass
class Correctness:
    """The correctness rungs of one candidate.

    Args:
        session: of the candidate; a rung that fails may end it.
        problem: of the task.
        builder: gets the rungs.
        machine: name of the GPU.
        another: opens a fresh session of the same candidate.
    """

    session: WorkerSession
    problem: Problem
    builder: EvaluationBuilder
    machine: str
    another: Callable[[], WorkerSession]
    unjudged: dict[str, str] = field(default_factory=dict)
    """By shape, why several calls were not compared there."""

    def every_shape(self) -> bool:
        """One rung per shape, the full one last, then one on other inputs and one on other uses; False where the
        candidate fails one."""
        names = (*(name for name in self.problem.shapes if name != "shrunk"), "full")
        return all(self.at(name) for name in names) and self.other_inputs() and self.other_uses()

    # ------------------------------------------------------------------------------------------------- at one shape

    def at(self, name: str) -> bool:
        """One rung: every seed of one shape."""
        rung, started = f"correctness_{name}", time.monotonic()
        judged, against = Judged(), ""
        try:
            for number, case in enumerate(self._cases(name)):
                against = case.against
                self._add(self._case(name, number, case), judged)
                if judged.failed:
                    return self._failed(rung, name, judged.findings, started)
        except CandidateFailed as failure:
            return self._failed(rung, name, [failure.finding], started, failure.log)
        except Unevaluable as error:
            if name == "full":
                self.builder.fail(rung, [Finding(kind=error.kind, message=str(error))])
                return False
            self.builder.skipped(rung, f"not checked at {name} shape: {error}", time.monotonic() - started)
            return True
        except torch.OutOfMemoryError as error:
            self._too_large(rung, f"not checked at {name} shape", error, started)
            return True
        self.builder.findings += judged.findings
        self.builder.passed(rung, self._statement(name, judged, against), time.monotonic() - started)
        return True

    def _cases(self, name: str) -> Iterable[Case]:
        return self.problem.full_cases() if name == "full" else self.problem.cases(name)

    def _case(self, name: str, number: int, case: Case) -> Judged:
        """The first seed gets several calls, the second comes as other weights for the same module."""
        if number == 0:
            try:
                return several_calls(self.session, self.problem, case, self._other(name, case), self.machine)
            except torch.OutOfMemoryError as error:
                torch.cuda.empty_cache()
                self.unjudged[name] = f"the GPU's memory does not hold the answers of several calls ({one_line(error)})"
        elif number == 1 and case.state:
            return check_reloaded(self.session, self.problem, case, self.machine)
        findings, check = gpu_answers.check(self.session, self.problem, case, self.machine)
        return Judged(findings, [check] if check is not None else [])

    def _other(self, name: str, case: Case) -> Case | None:
        """The same weights and other inputs; kept for the next candidate if small."""
        key = f"other/{name}"
        if key in self.problem.known:
            return self.problem.known[key][0]
        seed, device = self.problem.seed(key, 0), self.problem.device
        reference = load_reference(self.problem.task.reference, case.overrides)
        try:
            other = with_other_inputs(
                case, reference, self.problem.task.precision, name=case.name, seed=seed, device=device
            )
        except (Unevaluable, BadInput) as error:
            self.unjudged[name] = f"there are no other inputs for the same module ({one_line(error)})"
            return None
        self._keep(key, case, other)
        return other

    def _keep(self, key: str, first: Case, other: Case) -> None:
        """Beside a case that the problem itself keeps (its weights go with it)."""
        if any(first is case for cases in self.problem.known.values() for case in cases):
            self.problem.known[key] = [other]

    def _add(self, more: Judged, judged: Judged) -> None:
        judged.findings += more.findings
        judged.checks += more.checks
        judged.notes += [note for note in more.notes if note not in judged.notes]
        self.builder.checks += more.checks
        self.builder.kernelbench = more.kernelbench or self.builder.kernelbench  # the full shape comes last

    def _statement(self, name: str, judged: Judged, against: str) -> str:
        seeds = {check.seed for check in judged.checks}
        worst = max(judged.checks, key=lambda check: check.error / check.budget if check.budget else 0.0)
        notes = [
            *judged.notes,
            *([f"several calls not compared: {self.unjudged[name]}"] if name in self.unjudged else []),
        ]
        return (
            f"right on {count(len(seeds), 'seed')} in {count(len(judged.checks), 'call')} at {name} shape on "
            f"{self.machine}: error {worst.error:.1e} of a budget of {worst.budget:.1e} against {against}; "
            "every output element written, inputs, weights and the memory beside them unchanged"
            + "".join(f"; {note}" for note in notes)
        )

    def _too_large(self, rung: str, what: str, error: torch.OutOfMemoryError, started: float) -> None:
        torch.cuda.empty_cache()
        why = f"{what}: the GPU's memory does not hold the fp64 answer ({one_line(error)})"
        self.builder.skipped(rung, why, time.monotonic() - started)

    # ------------------------------------------------------------------------------------------ made for one shape

    def _failed(self, rung: str, name: str, findings: list[Finding], started: float, log: str = "") -> bool:
        """A failed rung; a candidate that is right at full shape alone is told as that."""
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
        self.builder.fail(rung, findings, time.monotonic() - started, log)
        return False

    def _right_at_full_shape(self) -> bool:
        try:
            case = next(iter(self.problem.full_cases()))
            if self.session.alive:  # wrong values do not end it, and a new process costs seconds
                findings, _ = gpu_answers.check(self.session, self.problem, case, self.machine)
                return not rejecting(findings)
            session = self.another()
            try:
                findings, _ = gpu_answers.check(session, self.problem, case, self.machine)
            finally:
                session.close()
        except (CandidateFailed, Unevaluable):
            return False
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return False
        return not rejecting(findings)

    # ------------------------------------------------------------------------------------------------- other inputs

    def other_inputs(self) -> bool:
        """One rung: inputs of other families, all of them at a reduced shape and one at full shape."""
        rung, started = "other_inputs", time.monotonic()
        judged, told = Judged(), []
        try:
            for shape, cases in (self._families_reduced(), self._family_at_full()):
                state = None
                for case in cases:
                    self._add(self._family(case, loaded=case.state is state), judged)
                    state = case.state
                    if judged.failed:
                        self.builder.fail(rung, judged.findings, time.monotonic() - started)
                        return False
                if cases:
                    told.append(f"{', '.join(case.family for case in cases)} at {shape} shape")
        except CandidateFailed as failure:
            self.builder.fail(rung, [failure.finding], time.monotonic() - started, failure.log)
            return False
        except torch.OutOfMemoryError as error:
            self._too_large(rung, "other inputs not all checked", error, started)
            return True
        if told:
            self.builder.passed(rung, f"right on inputs that are {' and '.join(told)}", time.monotonic() - started)
        else:
            self.builder.skipped(rung, f"no other family of inputs can be judged: {self._dropped()}")
        return True

    def other_uses(self) -> bool:
        """One rung: the module at a reduced shape, called as one in service is."""
        rung, started, name = "other_uses", time.monotonic(), self._reduced
        try:
            judged = calls_in_service(self.session, self.problem, name, self.machine)
            left_out = self.problem.uses(name).left_out
        except CandidateFailed as failure:
            self.builder.fail(rung, [failure.finding], time.monotonic() - started, failure.log)
            return False
        except Unevaluable as error:
            self.builder.skipped(rung, f"not tried: {error}", time.monotonic() - started)
            return True
        except torch.OutOfMemoryError as error:
            self._too_large(rung, "other uses not all tried", error, started)
            return True
        self.builder.checks += judged.checks
        if judged.failed:
            self.builder.fail(rung, judged.findings, time.monotonic() - started)
            return False
        self.builder.passed(rung, used_statement(judged.notes, left_out), time.monotonic() - started)
        return True

    @property
    def _reduced(self) -> str:
        return "awkward" if "awkward" in self.problem.shapes else "shrunk"

    def _family(self, case: Case, *, loaded: bool) -> Judged:
        judge = gpu_answers.check_loaded if loaded else gpu_answers.check
        findings, check = judge(self.session, self.problem, case, self.machine)
        told = [f.model_copy(update={"message": f"on {case.family} inputs: {f.message}"}) for f in findings]
        return Judged(told, [check] if check is not None else [])

    def _families_reduced(self) -> tuple[str, list[Case]]:
        name = self._reduced
        try:
            return name, self.problem.family_cases(name)
        except Unevaluable as error:
            self.problem.dropped_families.setdefault(name, {})["all"] = str(error)
            return name, []

    def _family_at_full(self) -> tuple[str, list[Case]]:
        if "family/full" in self.problem.known:
            return "full", self.problem.known["family/full"]
        case = next(iter(self.problem.full_cases()))
        applicable = families_of(case.inputs)
        dropped = self.problem.dropped_families.setdefault("full", {})
        for family in (name for name in AT_FULL_SHAPE if name in applicable):
            seed = self.problem.seed(f"full/{family}", 0)
            try:
                made = family_case(case, self.problem.reference, self.problem.task.precision, family=family, seed=seed)
            except (Unevaluable, BadInput) as error:
                dropped[family] = str(error)
                continue
            self._keep("family/full", case, made)
            return "full", [made]
        return "full", []

    def _dropped(self) -> str:
        reasons = [
            f"{family}: {why}" for dropped in self.problem.dropped_families.values() for family, why in dropped.items()
        ]
        return "; ".join(reasons)[:400] or "no input is free to change"

    # ------------------------------------------------------------------------------------------------------ finalists

    def repeats(self) -> bool:
        """One rung for finalists: the same call several times."""
        rung, started = "repeats", time.monotonic()
        try:
            judged = repeat(self.session, self.problem, next(iter(self.problem.full_cases())), self.machine)
        except CandidateFailed as failure:
            self.builder.fail(rung, [failure.finding], time.monotonic() - started, failure.log)
            return False
        except torch.OutOfMemoryError as error:
            self._too_large(rung, "not repeated", error, started)
            return True
        self.builder.checks += judged.checks
        if judged.failed:
            self.builder.fail(rung, judged.findings, time.monotonic() - started)
            return False
        self.builder.passed(rung, "; ".join(judged.notes), time.monotonic() - started)
        return True
