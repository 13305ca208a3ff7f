"""The ladder where there is no GPU: what can be proven about a candidate without running it on one.

Right answers on reduced shapes in the guarded interpreter; access in bounds at full shape; compilation for the target;
a lower bound on time. Never a speed.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from egg_graph.evaluator import exchange, gate
from egg_graph.evaluator.answers import judge_leaves, mutated
from egg_graph.evaluator.docket import Docket
from egg_graph.evaluator.evidence import NO_SPEED, NOT_AT_FULL_SHAPE, OWN_INPUTS, Climb, stopwatch
from egg_graph.evaluator.launches import FakeRun
from egg_graph.evaluator.nursery import Ended, Limits, Nursery
from egg_graph.evaluator.outcome import finding_of
from egg_graph.evaluator.precision import CAST
from egg_graph.evaluator.problem import Case, Unevaluable
from egg_graph.evaluator.roofline import bound
from egg_graph.evaluator.statements import (
    compile_statement,
    count,
    distinct,
    forbidden_library,
    launch_statement,
    no_launch,
    show,
    spills,
    unsampled_statement,
    unsampled_words,
)
from egg_graph.evaluator.verdict import rejecting
from egg_graph.schema import Candidate, Check, Finding, KernelResources, KernelTask

INTERPRETER = "interpreter"


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
        for name in docket.shapes:
            if not self.correct_at(docket, candidate, name, climb):
                break
        else:
            if "awkward" not in docket.shapes:
                climb.skipped("correctness_awkward", "no awkward shape was tried: the reference has no other small one")
        climb.absorb(full.result())
        climb.skipped("answers_on_gpu", NOT_AT_FULL_SHAPE)
        climb.skipped("other_inputs", OWN_INPUTS)
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

    def correct_at(self, docket: Docket, candidate: Candidate, name: str, climb: Climb) -> bool:
        """One correctness rung: every seed of one shape. False if the candidate fails it."""
        rung = f"correctness_{name}"
        started = time.monotonic()
        try:
            cases = docket.cases(name)
        except Unevaluable as problem:
            climb.skipped(rung, f"not checked at {docket.shapes[name]}: {problem}")
            return True
        checks = []
        for case in cases:
            with self.job_folder(candidate) as folder:
                end = self._interpret(docket, case, folder)
                findings, check = self._judge(docket, candidate, case, end, folder)
            climb.log = climb.log or (end.log if findings else "")
            if check is not None:
                climb.checks.append(check)
                checks.append(check)
            if rejecting(findings):
                climb.fail(rung, findings, time.monotonic() - started, end.log)
                return False
            climb.findings += findings
        worst = max(checks, key=lambda check: check.error / check.budget if check.budget else 0.0)
        climb.passed(
            rung,
            f"right on {count(len(checks), 'seed')} at {name} shape {show(docket.shapes[name])} in the guarded "
            f"interpreter: error {worst.error:.1e} of a budget of {worst.budget:.1e} against {cases[0].against}; "
            "every access in bounds, no write race, every output element written, inputs unchanged",
            time.monotonic() - started,
        )
        return True

    def _interpret(self, docket: Docket, case: Case, folder: Path) -> Ended:
        exchange.save(folder, "state", list(case.state.values()))
        exchange.save(folder, "inputs", case.inputs)
        payload = {
            **self._common(docket.task),
            "arguments": docket.arguments(case.overrides),
            "state": list(case.state),
            "seed": case.forward_seed,
        }
        return self.interpreting.run("egg_graph.evaluator.jobs:interpret", payload, folder, self._limits())

    def _judge(
        self, docket: Docket, candidate: Candidate, case: Case, end: Ended, folder: Path
    ) -> tuple[list[Finding], Check | None]:
        """What is wrong with the answer that a child left in its folder."""
        finding = finding_of(end, limit=self.timeout)
        if finding is not None:
            return [finding], None
        assert end.report is not None
        try:
            answer = end.report["answer"]
            findings = [Finding.model_validate(f) for f in answer["findings"]]
            if answer["strange"]:
                message = f"forward returns {', '.join(answer['strange'])} where the reference returns tensors"
                return [Finding(kind="wrong_structure", message=message)], None
            if not answer["launches"]:
                return [no_launch()], None
            structure, leaves = exchange.load(folder, "output")
            _, after = exchange.load(folder, "after")
        except (exchange.ExchangeError, KeyError, TypeError, ValidationError) as error:
            return [Finding(kind="exited", message=f"the process left no readable answer: {error}")], None
        if structure != case.structure or len(leaves) != len(case.leaves):
            message = f"forward returns {structure} where the reference returns {case.structure} (* is a tensor)"
            return [Finding(kind="wrong_structure", message=message)], None
        findings += mutated(docket, case.inputs, after)
        compared, check = judge_leaves(docket.task, case, leaves, machine=INTERPRETER, source=candidate.source)
        return [*findings, *compared], check

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
        self.compile(docket, candidate, run, climb)
        self.roofline(docket.task, run, climb, docket.surveyed.floor_ms)
        return climb

    def fake_call(
        self, docket: Docket, budget_seconds: float | None = None, wall_seconds: float | None = None
    ) -> dict[str, Any]:
        """What a full-shape run needs to know.

        Args:
            docket: of the task.
            budget_seconds: per launch; a sixth of the timeout if None.
            wall_seconds: of the whole run; the timeout if None.
        """
        return {
            **self._common(docket.task),
            "wall_seconds": self.timeout if wall_seconds is None else wall_seconds,
            "arguments": docket.arguments({}),
            "inputs": docket.full_shape_inputs,
            "budget_seconds": self.timeout / 6 if budget_seconds is None else budget_seconds,
        }

    def launches(self, task: KernelTask, candidate: Candidate, call: dict[str, Any], climb: Climb) -> FakeRun | None:
        """The full-shape rung; None where it failed or proves nothing."""
        rung, limit = "full_shape_launches", float(call["wall_seconds"])
        with stopwatch() as took, self.job_folder(candidate) as folder:
            end = self.interpreting.run("egg_graph.evaluator.jobs:launches", call, folder, Limits(limit))
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
        climb.passed(rung, launch_statement(run), took[0])
        if unsampled := unsampled_statement(run):
            climb.skipped("unsampled_programs", unsampled)
        return run

    def compile(self, docket: Docket, candidate: Candidate, run: FakeRun, climb: Climb) -> None:
        """The compilation rung."""
        rung, target = "compile_for_target", docket.task.target
        payload = {
            **self._common(docket.task),
            "launches": [launch.model_dump(mode="json") for launch in distinct(run.launches)],
        }
        with stopwatch() as took, self.job_folder(candidate) as folder:
            end = self.compiling.run("egg_graph.evaluator.jobs:compile_all", payload, folder, self._limits())
        finding = finding_of(end, limit=self.timeout)
        if finding is not None:
            kind = {"timeout": "kernel_compile_error", "crashed": "kernel_compile_error"}.get(
                finding.kind, finding.kind
            )
            message = f"compiling for {target.arch}: {finding.message}"
            climb.fail(rung, [finding.model_copy(update={"kind": kind, "message": message})], took[0], end.log)
            return
        assert end.report is not None
        answer = end.report["answer"]
        climb.resources = tuple(KernelResources.model_validate(r) for r in answer["resources"])
        findings = [Finding.model_validate(f) for f in answer["findings"]]
        if rejecting(findings):
            climb.fail(rung, findings, took[0], end.log)
            return
        climb.findings += [*findings, *spills(climb.resources)]
        climb.passed(rung, compile_statement(climb.resources, target.arch), took[0])

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
        dtype = CAST.get(task.precision)
        return {
            "hardware": task.target.model_dump(mode="json"),
            "dtype": None if dtype is None else str(dtype).removeprefix("torch."),
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
