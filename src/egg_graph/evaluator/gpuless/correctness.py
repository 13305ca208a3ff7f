"""The rungs of right answers without a GPU: every shape, other inputs and other uses in the guarded interpreter.

Shapes are judged in order, and the first one that fails is the last; while one is interpreted, so is the next one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.evidence.findings import reason_of, rejecting
from egg_graph.evaluator.evidence.shape_refusals import refusal_statement, shape_refusal
from egg_graph.evaluator.evidence.statements import count, error_statement, left_out_statement, show
from egg_graph.evaluator.gpuless.executor import CallsAtWork, InterpreterExecutor
from egg_graph.evaluator.gpuless.job_runner import JobRunner
from egg_graph.evaluator.gpuless.masked_lanes import may_be_zero, name_loads, name_zeros, right_with_zeros
from egg_graph.evaluator.gpuless.process_outcome import ProcessOutcome
from egg_graph.evaluator.problem.case import Unevaluable
from egg_graph.evaluator.problem.case_store import ALIGNED, LONG, SMALL
from egg_graph.evaluator.problem.families import FAMILIES
from egg_graph.evaluator.problem.plan import ANOTHER_SHAPE, Call, interpreter_calls
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.wire.launches import Launch
from egg_graph.schema import Candidate, Finding

LONG_SECONDS = 12.0
"""Time limit of one forward at a long shape [s]. A slower one is skipped, since the interpreter is what is slow."""
WHOLE_STEPS, LEAST_STEPS = 1500, 500
"""Accesses and loop turns per kernel after which a sample of programs stands for the rest, over all long shapes and
at least at each: about one second."""
ADDING = 3
"""Multiply the steps by this where programs add to each other's sums."""
LEAST_TAKEN = 2
"""A candidate that refuses shapes must be right at this many different ones."""
MOST_CHAINED = 8
"""Multiply the steps by at most this where kernels build on each other."""


@dataclass
class InterpretedCorrectness:
    """The rungs of right answers for one candidate.

    Args:
        jobs: runs the interpreter.
        problem: of the task.
        candidate: to be judged.
        builder: gets the rungs.
        pool: threads that wait for processes.
    """

    jobs: JobRunner
    problem: Problem
    candidate: Candidate
    builder: EvaluationBuilder
    pool: ThreadPoolExecutor
    launched: list[Launch] = field(default_factory=list)
    """Launches whose values were checked."""
    shapes_judged: int = 0
    """Number of shapes that they are of."""
    beside: EvaluationBuilder = field(default_factory=EvaluationBuilder)
    """Rungs of input families, other uses and integrity; they come after those on shapes."""
    refused: dict[str, Finding] = field(default_factory=dict)
    """By shape, how the candidate refuses it."""
    may_take_long: bool = False
    """Whether the candidate takes a long shape, or there was one at which it could not be judged."""
    refused_use: str = ""
    """Why the candidate refuses inputs of another shape in the same module; empty if it does not."""
    zeroed: list[str] = field(default_factory=list)
    """Loads without `other`, where the answer is right only if the lanes that they mask off are 0."""
    aligned: list[str] = field(default_factory=list)
    """Aligned shapes that were judged in their place."""
    sampled: dict[str, Finding] = field(default_factory=dict)
    """By reduced shape that was judged on a part of the programs, that all of them take too long."""
    everything_at: str = ""
    """The shape at which other inputs and other uses were judged; empty until one was."""
    ahead: dict[str, CallsAtWork] = field(default_factory=dict)
    """By shape, calls that were started before their turn."""

    def every_shape(self) -> None:
        """Judge reduced shapes, then long ones, until one fails; then enter the other rungs."""
        try:
            if self.at_reduced_shapes() and self._aligned_instead() and self._one_is_whole():
                if "awkward" not in self.problem.shapes:
                    why = "no awkward shape was tried: the reference has no other small one"
                    self.builder.skipped("correctness", why, shape="awkward")
                self.at_long_shapes()
        finally:
            for work in self.ahead.values():
                work.drop()
        self.builder.absorb(self.beside)

    # ---------------------------------------------------------------------------------------------- at reduced shapes

    def at_reduced_shapes(self) -> bool:
        """Judge all reduced shapes, one after the other; False if the candidate fails one."""
        names = list(self.problem.shapes)
        return all(self.at(name, following) for name, following in zip(names, [*names[1:], ""], strict=True))

    def at(self, name: str, following: str = "") -> bool:
        """One rung: a reduced shape; False if the candidate fails it.

        Args:
            name: of the shape.
            following: the shape that comes behind it; empty for none.
        """
        started, everything = time.monotonic(), self._judges_everything(name)
        try:
            work = self._at_work(name)
        except Unevaluable as error:
            why = f"not checked at {show(self.problem.sizes(name))}: {error}"
            self.builder.skipped("correctness", why, shape=name)
            return True
        self._start_ahead(following)
        found, calls = self._judged_in_time(name, work), work.calls
        if everything and (refusal := _refused_use(found)):
            self.refused_use = reason_of(refusal)
            calls = interpreter_calls(self.problem, name, everything=True, at_one_shape=True)
            found = self._judged(self._start(calls, self.jobs.timeout))
        if not name.startswith("further_") and self._refuses(name, found):
            return True
        right = self._decided(name, calls[0], found, time.monotonic() - started)
        if right and everything:
            self.everything_at = name
            self._families(name, found)
        return right

    def _judges_everything(self, name: str) -> bool:
        """Whether other inputs and other uses are judged at this shape: the cheapest that the candidate takes."""
        if name.startswith(SMALL):
            return not self.everything_at
        aligned_instead = name in self.problem.aligned_shapes if self.refused and not self.everything_at else False
        return aligned_instead or name == self.problem.family_shape

    def _refuses(self, name: str, found: ProcessOutcome) -> bool:
        """Note a candidate that says itself that a shape is not for it."""
        refusal = shape_refusal(finding for section in found.sections.values() for finding in section.findings)
        if refusal is not None:
            self.refused[name] = refusal
        return refusal is not None

    # ----------------------------------------------------------------------------------------- where it refuses some

    def _aligned_instead(self) -> bool:
        """Judge aligned shapes in the place of refused ones; False if the candidate is wrong or refuses those, too."""
        if not self.refused:
            return True
        taken = [self.problem.overrides(name) for name in self.problem.shapes if name not in self.refused]
        for name, overrides in self.problem.aligned_shapes.items():
            if len(taken) >= LEAST_TAKEN and self.everything_at:
                break
            if not self.at(name):
                return False
            if name not in self.refused and overrides not in taken:
                taken.append(overrides)
                self.aligned.append(name)
        refused = {name: finding for name, finding in self.refused.items() if name in self.problem.shapes}
        if len(taken) < LEAST_TAKEN or not self.everything_at:
            name, finding = next(iter(refused.items()))
            self.builder.fail("correctness", [finding], shape=name)
            return False
        for name in refused:
            self._told_refusal(name)
        return True

    def _told_refusal(self, name: str) -> None:
        words = refusal_statement(self.problem.sizes(name), self.refused[name])
        self.builder.skipped("correctness", words, shape=name)

    def _decided(self, name: str, first: Call, found: ProcessOutcome, seconds: float) -> bool:
        """Enter what was established at a shape; False if the candidate fails there."""
        given, families = found.sections["correctness"], found.sections["other_inputs"]
        self.launched += found.launches
        self.shapes_judged += 1
        self.builder.checks += given.checks
        self.builder.kernelbench = self.builder.kernelbench or found.kernelbench
        self.builder.log = self.builder.log or (found.log if given.findings or families.findings else "")
        if given.failed:
            findings = _specialised(self.problem, name, given.findings)
            self.builder.fail("correctness", findings, seconds, found.log, shape=name)
            return False
        self.builder.findings += given.findings
        statement = _right_statement(self.problem, name, found, first.case.against)
        self.builder.passed("correctness", statement, seconds, shape=name)
        return True

    # --------------------------------------------------------------------------------------------- calls and answers

    def _at_work(self, name: str) -> CallsAtWork:
        """The calls at a shape, which may have been started before.

        Raises:
            Unevaluable: if the reference has no answer there.
        """
        work = self.ahead.pop(name, None)
        if work is not None and work.zero_lanes == bool(self.zeroed):
            return work
        if work is not None:
            work.drop()
        calls = interpreter_calls(self.problem, name, everything=self._judges_everything(name))
        if LONG in name:
            return self._start(calls, self._long_limit, self._whole_steps())
        return self._start(calls, self.jobs.timeout)

    def _start_ahead(self, name: str) -> None:
        """Start the calls at a shape before its turn; why they cannot be made is told when it comes."""
        if name:
            with suppress(Unevaluable):
                self.ahead[name] = self._at_work(name)

    def _start(self, calls: Sequence[Call], seconds: float, whole_steps: int | None = None) -> CallsAtWork:
        executor = InterpreterExecutor(self.jobs, self.problem, self.candidate, self.pool)
        return executor.start(calls, seconds, whole_steps, zero_lanes=bool(self.zeroed))

    def _judged(self, work: CallsAtWork) -> ProcessOutcome:
        """What calls established; made again with zeros in masked lanes, if the target's code may have them there."""
        found = work.judge()
        if self.zeroed or not may_be_zero(self.problem.task, found):
            return found
        again = work.again(zero_lanes=True).judge()
        if again.failed and _refused_use(again) is None:
            if not right_with_zeros(found, again):
                name_loads(found, again)
                return found
            name_zeros(again, found.undefined_loads)
        self.zeroed = found.undefined_loads
        return again

    def _judged_in_time(self, name: str, work: CallsAtWork) -> ProcessOutcome:
        """What calls established; of a kernel that is too slow for the interpreter, on a part of its programs."""
        found = self._judged(work)
        late = _overdue(found)
        if late is None or not found.many_programs:
            return found
        sampled = self._judged(self._start(work.calls, self._long_limit, self._whole_steps()))
        if _left_out(sampled, self._long_limit):
            return found
        self.sampled[name] = late
        return sampled

    @property
    def _some_were_whole(self) -> bool:
        """Whether all programs were judged at some shape."""
        return len(self.sampled) < self.shapes_judged

    def _one_is_whole(self) -> bool:
        """Whether all programs were judged at one shape, a small one if need be.

        False rejects a candidate that is wrong there, or too slow at each.
        """
        if self._some_were_whole:
            return True
        if self.problem.small_shapes:  # with all that there was no time for at the larger ones
            self.beside, self.everything_at = EvaluationBuilder(), ""
        if not all(self.at(name) for name in self.problem.small_shapes):
            return False
        if self._some_were_whole:
            return True
        name, late = next(iter(self.sampled.items()))
        self.builder.fail("correctness", [late], shape=name)
        return False

    # ------------------------------------------------------------------------------------------------- at long shapes

    def at_long_shapes(self) -> None:
        """Judge shapes whose sizes are as large as at full shape, a few at a time; name the sizes that none reaches."""
        longer = [self.problem.grown_names(name) for name in self.aligned[-1:]]
        names = [*self.problem.long_names, *(name for names in longer for name in names)]
        pairs = zip(names, [*names[1:], ""], strict=True) if names else ()
        if not all(self.at_long(name, following) for name, following in pairs) or not self._takes_a_long_one():
            return
        if short := self.problem.long_shapes.not_full:
            words = ", ".join(f"{name} ({size} at most)" for name, size in short.items())
            told = f"no value was checked where these are as large as in full: {words}"
            self.builder.skipped("sizes_at_full_value", told)

    def at_long(self, name: str, following: str = "") -> bool:
        """One rung: a long shape, on as many programs as time allows; False if the candidate fails it.

        Args:
            name: of the shape.
            following: the shape that comes behind it; empty for none.
        """
        started = time.monotonic()
        try:
            work = self._at_work(name)
            self._start_ahead(following)
            found = self._judged(work)
            why = _left_out(found, self._long_limit)
        except Unevaluable as error:
            why = str(error)
        if why:
            told = f"not checked at {show(self.problem.sizes(name))}: {why}"
            self.builder.skipped("correctness", told, time.monotonic() - started, shape=name)
            self.may_take_long = True
            return True
        if self._refuses(name, found):
            return True
        self.may_take_long = True
        return self._decided(name, work.calls[0], found, time.monotonic() - started)

    def _takes_a_long_one(self) -> bool:
        """Tell the long shapes that the candidate refuses; False rejects it if it refuses all of them and no others."""
        long = [name for name in self.refused if LONG in name]
        if long and not self.may_take_long and len(long) == len(self.refused):
            name = long[0]
            findings = _specialised(self.problem, name, [self.refused[name]])
            self.builder.fail("correctness", findings, shape=name)
            return False
        for name in long:
            self._told_refusal(name)
        return True

    @property
    def _long_limit(self) -> float:
        """Seconds for one forward at a long shape."""
        return min(self.jobs.timeout, LONG_SECONDS)

    def _whole_steps(self) -> int:
        """Steps of the programs of a long shape.

        Kernels that build on each other, or add to what others wrote, get more: a part of them proves nothing.
        """
        names = self.problem.long_names
        chain = len(self.launched) // max(1, self.shapes_judged)
        adding = any(launch.atomics for launch in self.launched)
        more = min(MOST_CHAINED, max(1, chain)) * (ADDING if adding else 1)
        return max(LEAST_STEPS, WHOLE_STEPS // max(1, len(names))) * more

    # ------------------------------------------------------------------------------ other inputs, uses, and causality

    def _families(self, name: str, found: ProcessOutcome) -> None:
        """The rungs that input families, other uses and silent kernels decide."""
        builder, integrity = self.beside, found.sections["causality"].findings
        builder.checks += found.sections["other_inputs"].checks
        builder.integrity = found.integrity
        self._other_inputs(name, found)
        if found.untried:
            told = f"{count(found.untried, 'configuration')} of autotuned kernels never ran: no time, or too many"
            builder.skipped("tuning_configurations", told)
        self._other_uses(name, found)
        if integrity:
            builder.fail("integrity", integrity)
        elif found.integrity is not None and found.integrity.causal:
            builder.passed("integrity", "the answer is another one when its Triton kernels do nothing")
        elif not found.sections["other_inputs"].failed:
            builder.skipped("integrity", f"not known whether its kernels matter: {found.not_tried or 'not tried'}")

    def _other_inputs(self, name: str, found: ProcessOutcome) -> None:
        families = found.sections["other_inputs"]
        if families.failed:
            self.beside.fail("other_inputs", families.findings)
            return
        self.beside.findings += families.findings
        self.beside.late_families += found.left_out
        if self.problem.task.domain == "nonfinite" and (
            late := [family for family in found.left_out if FAMILIES[family].makes_infinities]
        ):
            self.beside.fail("other_inputs", [_no_time_for_infinities(late, self.jobs.timeout)])
            return
        missing = {**self.problem.dropped_families.get(name, {}), **dict.fromkeys(found.left_out, "no time")}
        if tried := dict.fromkeys(check.family for check in families.checks):
            where = f"right on inputs {', '.join(tried)} at {name} shape in the guarded interpreter"
            self.beside.passed("other_inputs", where)
        else:
            why = "" if missing else ": no input is free to change"
            self.beside.skipped("other_inputs", f"inputs came only from get_inputs' own distribution{why}")
        if missing:
            self.beside.skipped("inputs_left_out", left_out_statement("not judged on inputs", missing))

    def _other_uses(self, name: str, found: ProcessOutcome) -> None:
        uses = found.sections["other_uses"]
        self.beside.checks += uses.checks
        if uses.failed:
            self.beside.fail("other_uses", uses.findings)
        elif not found.sections["other_inputs"].failed:
            if found.used:
                self.beside.passed("other_uses", f"right used otherwise: {'; '.join(found.used)}")
            missing = {**self.problem.uses(name).left_out, **dict.fromkeys(found.unused, "no time")}
            if self.refused_use:
                missing[ANOTHER_SHAPE] = f"it refuses them: {self.refused_use}"
            if missing:
                self.beside.skipped("uses_left_out", left_out_statement("not tried", missing))


def _no_time_for_infinities(families: list[str], timeout: float) -> Finding:
    """That a kernel is too slow in the interpreter to be judged on inputs that belong to the domain."""
    return Finding(
        kind="timeout",
        message=f"no time for inputs {', '.join(families)}, which domain nonfinite asks for",
        cure=f"give --timeout more than {timeout:g} s, or launch fewer or smaller programs",
    )


def _refused_use(found: ProcessOutcome) -> Finding | None:
    """By what a candidate that is right at a shape refuses another one in the same module; None if it does not."""
    if any(found.sections[name].failed for name in ("correctness", "other_inputs")):
        return None
    return shape_refusal(found.sections["other_uses"].findings)


def _right_statement(problem: Problem, name: str, found: ProcessOutcome, against: str) -> str:
    """Say what a rung of right answers proved."""
    given = found.sections["correctness"]
    checks = given.checks
    seeds = count(len({check.seed for check in checks}), "seed")
    written = "every output element written" if not found.part else "other programs were left out for time"
    return (
        f"right on {seeds}{found.part} at {name} shape {show(problem.sizes(name))} in the guarded interpreter: "
        f"{error_statement(checks, against, problem.task.precision)}; "
        f"every access in bounds, no write race, {written}, inputs and weights unchanged"
        + "".join(f"; {note}" for note in given.notes)
    )


def _left_out(found: ProcessOutcome, limit: float) -> str:
    """Why a long shape proves nothing; empty if it proves something."""
    if found.cut_short:
        return "there is time for a part of its programs only, and others build on what they leave"
    if _overdue(found) is not None:
        return f"the interpreter takes more than {limit:.0f} s"
    return ""


def _overdue(found: ProcessOutcome) -> Finding | None:
    """That a call which must be right took too long; None if none did."""
    return next((finding for finding in found.sections["correctness"].findings if finding.kind == "timeout"), None)


def _specialised(problem: Problem, name: str, findings: list[Finding]) -> list[Finding]:
    """Report a candidate that fails at a further or long shape alone as specialised to the shapes before."""
    first = next(iter(rejecting(findings)))
    aligned = name.startswith(ALIGNED) and name not in problem.grown_shapes
    if (name in problem.shapes or aligned) and not name.startswith("further_"):
        return findings
    longer = "a longer one" if problem.overrides(name) else "the full one,"
    which = "the task's further shape" if name in problem.shapes else longer
    special = Finding(
        kind="specialised_to_shape",
        message=f"right at the smaller shapes, but not at {which} {show(problem.sizes(name))}: {first.message}",
        where=first.where,
        cure="take sizes and strides from the tensors; no loop, grid or branch may end at a size of its own",
    )
    return [special, *findings]
