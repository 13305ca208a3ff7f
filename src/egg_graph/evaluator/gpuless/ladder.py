"""The ladder where there is no GPU: what can be proven about a candidate without running it on one.

Right answers on reduced shapes in the guarded interpreter; access in bounds at full shape; compilation for the target;
a lower bound on time. Never a speed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egg_graph.evaluator import gate
from egg_graph.evaluator.evidence.builder import NO_SPEED, NOT_AT_FULL_SHAPE, Climb, stopwatch
from egg_graph.evaluator.gpuless.correctness import Correctness
from egg_graph.evaluator.wire.launches import FakeRun, Launch
from egg_graph.evaluator.gpuless.roofline import bound
from egg_graph.evaluator.problem.problem import Docket
from egg_graph.evaluator.problem.precision import cast_name
from egg_graph.evaluator.host.fork_server import Limits, Nursery
from egg_graph.evaluator.host.outcome import finding_of
from egg_graph.evaluator.evidence.statements import compile_statement, count, distinct, forbidden_library, launch_statement, no_launch, not_reached, spills, unsampled_statement, unsampled_words, unseen_branches
from egg_graph.evaluator.evidence.findings import rejecting
from egg_graph.schema import Candidate, Finding, KernelResources, KernelTask

SAMPLE, LARGE_SAMPLE = 6, 200
"""Programs of a launch that a run without values interprets, and where it is doubted that they are like the others."""
DOUBTED_SECONDS = 12.0
"""For the latter."""
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
        correctness = Correctness(self, docket, candidate, climb)
        correctness.every_shape()
        at_full = full.result()
        climb.absorb(at_full)
        if not climb.failed:
            self._same_kernels(docket, candidate, correctness.launched, at_full.launched, climb)
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
        self.at_greatest(docket, candidate, climb)
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
            **self.common(docket.task),
            "wall_seconds": self.timeout if wall_seconds is None else wall_seconds,
            "arguments": docket.arguments(overrides),
            "inputs": docket.input_forms(overrides),
            "budget_seconds": self.timeout / 6 if budget_seconds is None else budget_seconds,
            "sample": SAMPLE,
            "fill": False,
            "greatest": False,
        }

    def launches(self, task: KernelTask, candidate: Candidate, call: dict[str, Any], climb: Climb) -> FakeRun | None:
        """The full-shape rung; None where it failed or proves nothing."""
        rung, limit = "full_shape_launches", float(call["wall_seconds"])
        with stopwatch() as took, self.job_folder(candidate) as folder:
            end = self.interpreting.run("egg_graph.evaluator.worker.jobs:launches", call, folder, Limits(limit))
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

    def at_greatest(self, docket: Docket, candidate: Candidate, climb: Climb) -> None:
        """The same where integers that inputs hold are the greatest they may be: an index far into a large table."""
        if not docket.draws_integers:
            return
        rung, found = "greatest_integers", Climb()
        call = {**self.fake_call(docket, DOUBTED_SECONDS / 4, DOUBTED_SECONDS), "greatest": True}
        run = self.launches(docket.task, candidate, call, found)
        seconds = sum(other.seconds for other in found.rungs)
        if outside := [finding for finding in found.findings if finding.kind == "out_of_bounds"]:
            climb.fail(rung, outside, seconds, found.log)
        elif run is None:
            climb.skipped(rung, "not known where the greatest integers lead at full shape: no time, or no way", seconds)
        else:
            climb.passed(rung, "no access out of bounds at full shape where integers are the greatest drawn", seconds)

    def coverage(self, docket: Docket, candidate: Candidate, run: FakeRun, climb: Climb) -> None:
        """Whether the programs at full shape can reach all of each input and output. Where they seem not to, many more
        of them are looked at, and with other values: what depends on these is not judged."""
        wholly = docket.wholly_read
        judged = [reach for reach in run.reaches if reach.tensor == "output" or reach.index in wholly]
        short = [reach for reach in judged if reach.short]
        if short:
            call = self.fake_call(docket, DOUBTED_SECONDS / 4, DOUBTED_SECONDS)
            call |= {"sample": LARGE_SAMPLE, "fill": True}
            again = self.launches(docket.task, candidate, call, Climb())
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
        payload = {**self.common(task), "launches": [launch.model_dump(mode="json") for launch in launches]}
        with self.job_folder(candidate) as folder:
            end = self.compiling.run("egg_graph.evaluator.worker.jobs:compile_all", payload, folder, self._limits())
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
        products = f"{climb.bound.dot_flops / 1e9:.4g} GFLOP of tl.dot, " if climb.bound.dot_flops else ""
        climb.passed(
            "roofline",
            f"no run on {task.target.name} can take less than {climb.bound.milliseconds:.4g} ms "
            f"({climb.bound.dram_bytes / 1e6:.4g} MB through DRAM, {products}"
            f"{count(climb.bound.launches, 'launch', 'launches')}, limited by {climb.bound.limiter})"
            f"{unsampled_words(run)}{floor}",
        )

    # ------------------------------------------------------------------------------------------------------ tools

    def common(self, task: KernelTask) -> dict[str, Any]:
        """What every job has to know of a task."""
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
