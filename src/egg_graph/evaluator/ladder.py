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
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from egg_graph.evaluator import exchange, gate
from egg_graph.evaluator.compare import compare
from egg_graph.evaluator.docket import Docket
from egg_graph.evaluator.evidence import NO_SPEED, Climb, stopwatch
from egg_graph.evaluator.launches import FakeRun, Launch
from egg_graph.evaluator.nursery import Ended, Limits, Nursery
from egg_graph.evaluator.outcome import finding_of
from egg_graph.evaluator.precision import CAST
from egg_graph.evaluator.problem import Case, Unevaluable
from egg_graph.evaluator.roofline import bound
from egg_graph.evaluator.verdict import rejecting
from egg_graph.schema import Candidate, Check, Finding, KernelResources, KernelTask

MEMORY_OPERATORS = frozenset(
    {"fill", "fill_", "zero_", "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones"}
    | {"new_full", "copy_", "clone", "_to_copy", "contiguous", "arange", "cat", "stack", "constant_pad_nd"}
)
"""Library operators that only make or move memory; a task may forbid the rest."""
INTERPRETER = "interpreter"


@dataclass
class Ladder:
    """The tools of the GPU-less ladder."""

    interpreting: Nursery
    compiling: Nursery
    folder: Path
    timeout: float
    pool: ThreadPoolExecutor

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
        climb.skipped("timing", NO_SPEED)
        return climb

    def gate(self, candidate: Candidate, climb: Climb) -> bool:
        """The static gate. False if the candidate stays outside."""
        with stopwatch() as took:
            findings = gate.check(candidate)
        if findings:
            climb.fail("static_gate", findings, took[0])
            return False
        climb.passed("static_gate", "the module keeps the contract: Triton kernels, ModelNew, no test code", took[0])
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
                findings, check = self._judge(docket, case, end, folder)
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
            f"right on {_count(len(checks), 'seed')} at {name} shape {_show(docket.shapes[name])} in the guarded "
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

    def _judge(self, docket: Docket, case: Case, end: Ended, folder: Path) -> tuple[list[Finding], Check | None]:
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
                return [_no_launch()], None
            structure, leaves = exchange.load(folder, "output")
            _, after = exchange.load(folder, "after")
        except (exchange.ExchangeError, KeyError, TypeError, ValidationError) as error:
            return [Finding(kind="exited", message=f"the process left no readable answer: {error}")], None
        if structure != case.structure or len(leaves) != len(case.leaves):
            message = f"forward returns {structure} where the reference returns {case.structure} (* is a tensor)"
            return [Finding(kind="wrong_structure", message=message)], None
        findings += mutated(docket, case.inputs, after)
        compared, check = judge_leaves(docket.task, case, leaves, machine=INTERPRETER)
        return [*findings, *compared], check

    # ------------------------------------------------------------------------------------------------- full shape

    def full_shape(self, docket: Docket, candidate: Candidate) -> Climb:
        """Fake launches at full shape, compilation for the target, and the lower bound that follows."""
        climb = Climb()
        run = self.launches(docket, candidate, climb)
        if run is None:
            climb.skipped("compile_for_target", "not compiled: no launch is known")
            climb.skipped("roofline", "no lower bound: no launch is known")
            return climb
        self.compile(docket, candidate, run, climb)
        self.roofline(docket, run, climb)
        return climb

    def launches(self, docket: Docket, candidate: Candidate, climb: Climb) -> FakeRun | None:
        """The full-shape rung; None where it failed or proves nothing."""
        rung = "full_shape_launches"
        payload = {
            **self._common(docket.task),
            "arguments": docket.arguments({}),
            "inputs": docket.full_shape_inputs,
            "budget_seconds": self.timeout / 6,
        }
        with stopwatch() as took, self.job_folder(candidate) as folder:
            end = self.interpreting.run("egg_graph.evaluator.jobs:launches", payload, folder, self._limits())
        finding = finding_of(end, limit=self.timeout)
        if finding is not None:
            climb.fail(rung, [finding], took[0], end.log)
            return None
        assert end.report is not None
        answer = end.report["answer"]
        if "unfakeable" in answer:
            climb.skipped(rung, f"not proven at full shape: {answer['unfakeable']}")
            return None
        run = FakeRun.model_validate(answer["run"])
        findings = [*run.findings, *_forbidden_library(docket.task, run)]
        if not run.launches:
            findings.append(_no_launch())
        if rejecting(findings):
            climb.fail(rung, findings, took[0], end.log)
            return None
        climb.findings += findings
        climb.triton_share = run.triton_share
        climb.passed(rung, _launch_statement(run), took[0])
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

    def roofline(self, docket: Docket, run: FakeRun, climb: Climb) -> None:
        """The lower bound, and what it says beside the reference's floor."""
        climb.bound = bound(run, docket.task.target, docket.task.precision)
        climb.passed(
            "roofline",
            f"no run on {docket.task.target.name} can take less than {climb.bound.milliseconds:.4g} ms "
            f"({climb.bound.dram_bytes / 1e6:.4g} MB through DRAM, {climb.bound.dot_flops / 1e9:.4g} GFLOP, "
            f"{_count(climb.bound.launches, 'launch', 'launches')}, limited by {climb.bound.limiter}); "
            f"the task's own floor is {docket.surveyed.floor_ms:.4g} ms",
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
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


# ------------------------------------------------------------------------------------------------ small judgements


def judge_leaves(
    task: KernelTask, case: Case, leaves: Sequence[Any], *, machine: str
) -> tuple[list[Finding], Check | None]:
    """All leaves of one answer against one case."""
    findings: list[Finding] = []
    worst: Check | None = None
    for index, (got, leaf) in enumerate(zip(leaves, case.leaves, strict=True)):
        place = f"output {index}, " if len(case.leaves) > 1 else ""
        result = compare(
            got,
            leaf,
            where=f"{place}{case.name} shape {list(leaf.expected.shape)}, seed {case.seed}",
            precision=task.precision,
            emulated_error=partial(case.emulated_error, index),
        )
        findings += result.findings
        check = Check(
            name=case.name,
            shapes=case.input_shapes,
            seed=case.seed,
            error=result.error,
            budget=leaf.budget,
            max_abs=result.max_abs,
            passed=result.passed,
            machine=machine,
        )
        if worst is None or (check.passed, -check.error) < (worst.passed, -worst.error):
            worst = check
    return findings, worst


def mutated(docket: Docket, before: Sequence[Any], after: Sequence[Any]) -> list[Finding]:
    """Inputs that the call changed, bytewise."""
    names = docket.reference.forward_names(len(before))
    return [
        Finding(
            kind="input_mutated",
            message=f"forward changes its input {name}, which the reference leaves alone",
            where=name,
            cure="write to a fresh tensor (torch.empty_like), not to the input",
        )
        for name, old, new in zip(names, before, after, strict=False)
        if isinstance(old, torch.Tensor)
        and (not isinstance(new, torch.Tensor) or exchange.as_bytes(old) != exchange.as_bytes(new))
    ]


def distinct(launches: Sequence[Launch]) -> list[Launch]:
    """Launches that compile to different code, first of each."""
    seen: dict[str, Launch] = {}
    for launch in launches:
        key = launch.model_dump_json(include={"kernel", "signature", "constexprs", "divisible_by_16", "options"})
        seen.setdefault(key, launch)
    return list(seen.values())


def spills(resources: Sequence[KernelResources]) -> list[Finding]:
    """Kernels whose registers do not suffice: slow, not wrong."""
    return [
        Finding(
            kind="register_spill",
            message=f"{r.spill_bytes} bytes of registers per thread spill to memory",
            where=f"kernel {r.kernel}",
            cure="take smaller blocks or more warps",
        )
        for r in resources
        if r.spill_bytes
    ]


def compile_statement(resources: Sequence[KernelResources], arch: str) -> str:
    """What compiling proved, kernel by kernel."""
    from importlib.metadata import version

    parts = []
    for r in resources:
        spilled = f"{r.spill_bytes} B spilled" if r.spill_bytes else "no spills"
        registers = f"{r.registers} registers, " if r.registers is not None else ""
        parts.append(
            f"{r.kernel}: {registers}{spilled}, {_kib(r.shared_bytes)} of {_kib(r.shared_limit)} shared memory"
        )
    return f"compiles for {arch} with triton {version('triton')}: {'; '.join(parts)}"


def _kib(count: int) -> str:
    return f"{count / 1024:.0f} KiB" if count >= 1024 else f"{count} B"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _show(overrides: dict[str, int]) -> str:
    return (
        "{" + ", ".join(f"{name}: {value}" for name, value in overrides.items()) + "}" if overrides else "as declared"
    )


def _no_launch() -> Finding:
    return Finding(
        kind="no_triton_kernel",
        message="forward launches no Triton kernel",
        cure="compute the result in a @triton.jit kernel that forward launches",
    )


def _forbidden_library(task: KernelTask, run: FakeRun) -> list[Finding]:
    names = sorted({call.name for call in run.library if call.name.removeprefix("aten.") not in MEMORY_OPERATORS})
    if not task.triton_only or not names:
        return []
    return [
        Finding(
            kind="library_call",
            message=f"the task allows Triton kernels only, but forward calls {', '.join(names)}",
            cure="compute this in a Triton kernel too",
        )
    ]


def _launch_statement(run: FakeRun) -> str:
    parts = [
        f"{launch.kernel}{list(launch.grid)} ({launch.executed} of {_count(launch.programs, 'program')} sampled)"
        for launch in run.launches[:6]
    ]
    more = f" and {len(run.launches) - 6} more" if len(run.launches) > 6 else ""
    library = f"; beside them PyTorch runs {', '.join(sorted({c.name for c in run.library}))}" if run.library else ""
    return f"every access in bounds at full shape: {', '.join(parts)}{more}{library}"
