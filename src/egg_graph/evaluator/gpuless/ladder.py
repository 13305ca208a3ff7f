"""The ladder where there is no GPU: what can be proven about a candidate without running it on one.

Right answers on reduced shapes in the guarded interpreter; access in bounds at full shape; compilation for the target;
a lower bound on time. Never a speed.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egg_graph.evaluator import gate
from egg_graph.evaluator.evidence import NO_SPEED, NOT_AT_FULL_SHAPE, Climb, stopwatch
from egg_graph.evaluator.gpuless.interpreted import OPTIONAL_SECONDS, Hearing, Verdicts
from egg_graph.evaluator.gpuless.launches import FakeRun, Launch
from egg_graph.evaluator.gpuless.planning import Call, plan, written
from egg_graph.evaluator.gpuless.roofline import bound
from egg_graph.evaluator.problem.case import Unevaluable
from egg_graph.evaluator.problem.docket import Docket
from egg_graph.evaluator.problem.precision import cast_name
from egg_graph.evaluator.sandbox.nursery import Ended, Limits, Nursery
from egg_graph.evaluator.sandbox.outcome import finding_of
from egg_graph.evaluator.statements import (
    compile_statement,
    count,
    distinct,
    forbidden_library,
    launch_statement,
    no_launch,
    not_reached,
    show,
    spills,
    unsampled_statement,
    unsampled_words,
    unseen_branches,
)
from egg_graph.evaluator.verdict import rejecting
from egg_graph.schema import Candidate, Finding, KernelResources, KernelTask

LONG_SECONDS = 12.0
"""For one forward at a long shape; a slower one is left out, for it is the interpreter that is slow."""
WHOLE_STEPS, LEAST_STEPS = 1500, 500
"""Accesses and turns of loops per kernel launched, over all long shapes and at each, after which a sample stands for
the programs that are left: a second or so."""
SAMPLE, LARGE_SAMPLE = 6, 200
"""Programs of a launch that a run without values interprets, and where it is doubted that they are like the others."""
ADDING = 3
"""Times more of them where programs add to each other's sums."""
MOST_OTHERS = 8
"""Launches compiled beside those of the full shape."""


@dataclass
class Ladder:
    """The tools of the GPU-less ladder."""

    interpreting: Nursery
    compiling: Nursery
    folder: Path
    timeout: float
    pool: ThreadPoolExecutor
    compiled: Path | None = None
    """What Triton has compiled for any candidate (its driver module): every job starts with a copy of its own."""

    # ------------------------------------------------------------------------------------------- the whole climb

    def climb(self, docket: Docket, candidate: Candidate) -> Climb:
        """All rungs, correctness and compilation side by side."""
        climb = Climb()
        if not self.gate(candidate, climb):
            return climb
        full = self.pool.submit(self.full_shape, docket, candidate)
        beside = Climb()
        checked: list[Launch] = []
        for name in docket.shapes:
            if not self.correct_at(docket, candidate, name, climb, beside, checked):
                break
        else:
            if "awkward" not in docket.shapes:
                climb.skipped("correctness_awkward", "no awkward shape was tried: the reference has no other small one")
            self.correct_at_long_shapes(docket, candidate, climb, checked)
        climb.absorb(beside)
        at_full = full.result()
        climb.absorb(at_full)
        if not climb.failed:
            self._same_kernels(docket, candidate, checked, at_full.launched, climb)
        climb.skipped("answers_on_gpu", NOT_AT_FULL_SHAPE)
        climb.skipped("timing", NO_SPEED)
        return climb

    def gate(self, candidate: Candidate, climb: Climb) -> bool:
        """The static gate. False if the candidate stays outside."""
        with stopwatch() as took:
            findings = gate.check(candidate)
        if findings:
            climb.fail("static_gate", findings, took[0])
            return False
        climb.passed("static_gate", "passes the static gate: Triton kernels, ModelNew, no test code", took[0])
        return True

    # ------------------------------------------------------------------------------------------------ correctness

    def correct_at(
        self, docket: Docket, candidate: Candidate, name: str, climb: Climb, beside: Climb, checked: list[Launch]
    ) -> bool:
        """One correctness rung. False if the candidate fails it. Where this is the shape that input families are
        judged at, what they and silent kernels showed goes to `beside`. What was launched is added to `checked`."""
        rung = f"correctness_{name}"
        started = time.monotonic()
        try:
            calls = plan(docket, name)
        except Unevaluable as problem:
            climb.skipped(rung, f"not checked at {show(docket.overrides(name))}: {problem}")
            return True
        long = name in docket.long_names
        limit = min(self.timeout, LONG_SECONDS) if long else self.timeout
        steps = _whole_steps(docket, name, checked) if long else None
        with self.job_folder(candidate) as folder:
            end = self._interpret(docket, calls, folder, limit, steps)
            found = Hearing(docket, candidate, calls, folder, end, self.timeout).judged()
        given, seconds = found.given, time.monotonic() - started
        if long and (why := _left_out(found, limit)):
            climb.skipped(rung, f"not checked at {show(docket.overrides(name))}: {why}", seconds)
            return True
        checked += found.launches
        climb.checks += given.checks
        climb.kernelbench = climb.kernelbench or found.kernelbench
        climb.log = climb.log or (end.log if given.findings or found.families.findings else "")
        if given.failed:
            climb.fail(rung, _specialised(docket, name, given.findings), seconds, end.log)
            return False
        climb.findings += given.findings
        climb.passed(rung, _right_statement(docket, name, found, calls[0].case.against), seconds)
        if name == docket.family_shape:
            self._beside(docket, name, found, beside)
        return True

    def correct_at_long_shapes(self, docket: Docket, candidate: Candidate, climb: Climb, checked: list[Launch]) -> None:
        """Sizes as large as in full, a few at a time; what no shape reaches is told."""
        for name in docket.long_names:
            if not self.correct_at(docket, candidate, name, climb, Climb(), checked):
                return
        if short := docket.long.short:
            words = ", ".join(f"{name} ({size} at most)" for name, size in short.items())
            climb.skipped("sizes_at_full_value", f"no value was checked where these are as large as in full: {words}")

    def _beside(self, docket: Docket, name: str, found: Verdicts, climb: Climb) -> None:
        """The rungs that input families and silent kernels decide."""
        climb.checks += found.families.checks
        climb.integrity = found.integrity
        dropped = [f"{family} ({why})" for family, why in docket.dropped_families.get(name, {}).items()]
        missing = [f"not judged there, because of the problem: {', '.join(dropped)}"] if dropped else []
        if found.left_out:
            missing.append(f"left out for time: {', '.join(found.left_out)}")
        tried = [check.family for check in found.families.checks]
        if found.families.failed:
            climb.fail("other_inputs", found.families.findings)
        elif tried:
            climb.findings += found.families.findings
            climb.passed(
                "other_inputs",
                f"right on inputs {', '.join(dict.fromkeys(tried))} at {name} shape in the guarded interpreter"
                + "".join(f"; {words}" for words in missing),
            )
        else:
            words = "; ".join(missing) or "no input is free to change"
            climb.skipped("other_inputs", f"inputs came only from get_inputs' own distribution: {words}")
        if found.untried:
            climb.skipped(
                "tuning_configurations",
                f"{count(found.untried, 'configuration')} of autotuned kernels never ran: no time, or too many",
            )
        self._uses(docket, name, found, climb)
        if found.causality:
            climb.fail("causality", found.causality)
        elif found.integrity is not None and found.integrity.causal:
            climb.passed("causality", "the answer is another one when its Triton kernels do nothing")
        elif not found.families.failed:
            climb.skipped("causality", f"not known whether its kernels matter: {found.not_tried or 'not tried'}")

    def _uses(self, docket: Docket, name: str, found: Verdicts, climb: Climb) -> None:
        """The rung that further use of the module decides."""
        climb.checks += found.uses.checks
        if found.uses.failed:
            climb.fail("other_uses", found.uses.findings)
            return
        if found.families.failed:
            return
        missing = [f"{what} ({why})" for what, why in docket.uses(name).left_out.items()]
        missing += [f"{what} (for time)" for what in found.unused]
        words = f"; left out: {'; '.join(missing)}" if missing else ""
        climb.passed("other_uses", f"right used otherwise: {'; '.join(found.used)}{words}")

    def _interpret(
        self, docket: Docket, calls: list[Call], folder: Path, seconds: float, whole_steps: int | None
    ) -> Ended:
        payload = {
            **self._common(docket.task),
            "arguments": docket.arguments(calls[0].case.overrides),
            "calls": written(calls, folder),
            "call_seconds": seconds,
            "optional_seconds": min(OPTIONAL_SECONDS, self.timeout / 2),
            "whole_steps": whole_steps,
        }
        limits = Limits(wall_seconds=seconds * len([call for call in calls if call.patience is None]))
        return self.interpreting.run("egg_graph.evaluator.gpuless.jobs:interpret", payload, folder, limits)

    # ------------------------------------------------------------------------------------------------- full shape

    def full_shape(self, docket: Docket, candidate: Candidate) -> Climb:
        """Fake launches at full shape, compilation for the target, and the lower bound that follows."""
        climb = Climb()
        run = self.launches(docket.task, candidate, self.fake_call(docket), climb)
        if run is None:
            why = "an earlier check failed" if climb.failed else "the launches at full shape are not known"
            climb.skipped("compile_for_target", f"not compiled: {why}")
            climb.skipped("roofline", f"no lower bound: {why}")
            return climb
        self.coverage(docket, candidate, run, climb)
        self.compile(docket, candidate, run, climb)
        self.roofline(docket.task, run, climb, docket.surveyed.floor_ms)
        return climb

    def fake_call(
        self,
        docket: Docket,
        budget_seconds: float | None = None,
        wall_seconds: float | None = None,
        *,
        shape: str = "full",
    ) -> dict[str, Any]:
        """What a run without values needs to know.

        Args:
            docket: of the task.
            budget_seconds: per launch; a sixth of the timeout if None.
            wall_seconds: of the whole run; the timeout if None.
            shape: `full`, or a name of `Docket.shapes`.
        """
        overrides = docket.overrides(shape)
        return {
            **self._common(docket.task),
            "wall_seconds": self.timeout if wall_seconds is None else wall_seconds,
            "arguments": docket.arguments(overrides),
            "inputs": docket.input_forms(overrides),
            "budget_seconds": self.timeout / 6 if budget_seconds is None else budget_seconds,
            "sample": SAMPLE,
            "fill": False,
        }

    def launches(self, task: KernelTask, candidate: Candidate, call: dict[str, Any], climb: Climb) -> FakeRun | None:
        """The full-shape rung; None where it failed or proves nothing."""
        rung, limit = "full_shape_launches", float(call["wall_seconds"])
        with stopwatch() as took, self.job_folder(candidate) as folder:
            end = self.interpreting.run("egg_graph.evaluator.gpuless.jobs:launches", call, folder, Limits(limit))
        finding = finding_of(end, limit=limit)
        if finding is not None:
            climb.fail(rung, [finding], took[0], end.log)
            return None
        assert end.report is not None
        answer = end.report["answer"]
        if "unfakeable" in answer:
            climb.skipped(rung, f"not proven at full shape: {answer['unfakeable']}", took[0])
            return None
        run = FakeRun.model_validate(answer["run"])
        findings = [*run.findings, *forbidden_library(task, run)]
        if not run.launches:
            findings.append(no_launch())
        if rejecting(findings):
            climb.fail(rung, findings, took[0], end.log)
            return None
        climb.findings += findings
        climb.triton_share = run.triton_share
        climb.launched = run.launches
        climb.passed(rung, launch_statement(run), took[0])
        if unsampled := unsampled_statement(run):
            climb.skipped("unsampled_programs", unsampled)
        return run

    def coverage(self, docket: Docket, candidate: Candidate, run: FakeRun, climb: Climb) -> None:
        """Whether the programs at full shape can reach all of each input and output. Where they seem not to, many more
        of them are looked at, and with other values: what depends on these is not judged."""
        wholly = docket.wholly_read
        judged = [reach for reach in run.reaches if reach.tensor == "output" or reach.index in wholly]
        short = [reach for reach in judged if reach.short]
        if short:
            call = {**self.fake_call(docket), "sample": LARGE_SAMPLE, "fill": True, "budget_seconds": LONG_SECONDS / 4}
            again = self.launches(docket.task, candidate, {**call, "wall_seconds": LONG_SECONDS}, Climb())
            short = [reach for reach in short if again is not None and reach in again.reaches]
        if short:
            climb.fail("coverage_at_full_shape", [not_reached(docket.surveyed, reach) for reach in short])
        elif judged:
            climb.passed("coverage_at_full_shape", "programs enough for all of inputs and outputs at full shape")

    def compile(self, docket: Docket, candidate: Candidate, run: FakeRun, climb: Climb) -> None:
        """The compilation rung."""
        rung, target = "compile_for_target", docket.task.target
        with stopwatch() as took:
            climb.resources, findings, log = self._compiled(docket.task, candidate, distinct(run.launches))
        if rejecting(findings):
            climb.fail(rung, findings, took[0], log)
            return
        climb.findings += [*findings, *spills(climb.resources)]
        climb.passed(rung, compile_statement(climb.resources, target.arch), took[0])

    def _compiled(
        self, task: KernelTask, candidate: Candidate, launches: Sequence[Launch]
    ) -> tuple[tuple[KernelResources, ...], list[Finding], str]:
        """Resources of launches compiled for the target, what the compiler refuses, and the log."""
        payload = {**self._common(task), "launches": [launch.model_dump(mode="json") for launch in launches]}
        with self.job_folder(candidate) as folder:
            end = self.compiling.run("egg_graph.evaluator.gpuless.jobs:compile_all", payload, folder, self._limits())
        finding = finding_of(end, limit=self.timeout)
        if finding is not None:
            kind = {"timeout": "kernel_compile_error", "crashed": "kernel_compile_error"}.get(
                finding.kind, finding.kind
            )
            message = f"compiling for {task.target.arch}: {finding.message}"
            return (), [finding.model_copy(update={"kind": kind, "message": message})], end.log
        assert end.report is not None
        answer = end.report["answer"]
        resources = tuple(KernelResources.model_validate(r) for r in answer["resources"])
        return resources, [Finding.model_validate(f) for f in answer["findings"]], end.log

    def _same_kernels(
        self, docket: Docket, candidate: Candidate, checked: list[Launch], at_full: Sequence[Launch], climb: Climb
    ) -> None:
        """Values were checked of the kernels that reduced shapes launch, and others may be launched at full shape:
        the former have to be Triton that compiles, too, and the latter are told."""
        known = {launch.kernel for launch in at_full}
        others = distinct([launch for launch in checked if launch.kernel not in known])
        findings = self._compiled(docket.task, candidate, others[:MOST_OTHERS])[1] if others else []
        if rejecting(findings):
            climb.fail("compile_checked_kernels", findings)
        if unseen := unseen_branches(checked, at_full):
            words = f"no value of {', '.join(unseen)} was checked: reduced shapes launch other kernels or branches"
            climb.skipped("kernels_at_full_shape", words)

    def roofline(self, task: KernelTask, run: FakeRun, climb: Climb, floor_ms: float | None = None) -> None:
        """The lower bound, and what it says beside the reference's floor."""
        climb.bound = bound(run, task.target, task.precision)
        floor = "" if floor_ms is None else f"; the task's own floor is {floor_ms:.4g} ms"
        climb.passed(
            "roofline",
            f"no run on {task.target.name} can take less than {climb.bound.milliseconds:.4g} ms "
            f"({climb.bound.dram_bytes / 1e6:.4g} MB through DRAM, {climb.bound.dot_flops / 1e9:.4g} GFLOP, "
            f"{count(climb.bound.launches, 'launch', 'launches')}, limited by {climb.bound.limiter})"
            f"{unsampled_words(run)}{floor}",
        )

    # ------------------------------------------------------------------------------------------------------ tools

    def _common(self, task: KernelTask) -> dict[str, Any]:
        return {
            "hardware": task.target.model_dump(mode="json"),
            "dtype": cast_name(task.precision),
            "wall_seconds": self.timeout,
        }

    def _limits(self) -> Limits:
        return Limits(wall_seconds=self.timeout)

    @contextmanager
    def job_folder(self, candidate: Candidate) -> Iterator[Path]:
        """A private folder with the candidate in it, gone afterwards."""
        folder = Path(tempfile.mkdtemp(prefix="job-", dir=self.folder))
        try:
            (folder / "candidate.py").write_text(candidate.source)
            if self.compiled is not None:
                shutil.copytree(self.compiled, folder / "triton")
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _right_statement(docket: Docket, name: str, found: Verdicts, against: str) -> str:
    """What a correctness rung proved."""
    checks = found.given.checks
    worst = max(checks, key=lambda check: check.error / check.budget if check.budget else 0.0)
    seeds = count(len({check.seed for check in checks}), "seed")
    written = "every output element written" if not found.part else "other programs were left out for time"
    return (
        f"right on {seeds}{found.part} at {name} shape {show(docket.overrides(name))} in the guarded interpreter: "
        f"error {worst.error:.1e} of a budget of {worst.budget:.1e} against {against}; "
        f"every access in bounds, no write race, {written}, inputs and weights unchanged"
        + "".join(f"; {note}" for note in found.given.notes)
    )


def _whole_steps(docket: Docket, name: str, checked: Sequence[Launch]) -> int:
    """How much of the programs of a long shape is run. Of kernels that build on each other, or add to what others
    wrote, a part proves nothing: they get more."""
    chain = len(checked) // (len(docket.shapes) + docket.long_names.index(name))
    more = min(MOST_OTHERS, max(1, chain)) * (ADDING if any(launch.atomics for launch in checked) else 1)
    return max(LEAST_STEPS, WHOLE_STEPS // len(docket.long_names)) * more


def _left_out(found: Verdicts, limit: float) -> str:
    """Why a long shape proves nothing, if so: an interpreter's slowness is not the candidate's."""
    if found.cut_short:
        return "there is time for a part of its programs only, and others build on what they leave"
    if any(finding.kind == "timeout" for finding in found.given.findings):
        return f"the interpreter takes more than {limit:.0f} s"
    return ""


def _specialised(docket: Docket, name: str, findings: list[Finding]) -> list[Finding]:
    """A further or long shape comes after those that were right: what fails there alone was made for them."""
    first = next(iter(rejecting(findings)))
    if name in docket.shapes and not name.startswith("further_"):
        return findings
    overrides = docket.overrides(name)
    which = "the task's further shape" if name in docket.shapes else "a longer one" if overrides else "the full one,"
    special = Finding(
        kind="specialised_to_shape",
        message=f"right at the smaller shapes, but not at {which} {show(overrides)}: {first.message}",
        where=first.where,
        cure="take sizes and strides from the tensors; no loop, grid or branch may end at a size of its own",
    )
    return [special, *findings]
