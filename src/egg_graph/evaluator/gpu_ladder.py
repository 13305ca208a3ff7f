"""The ladder on a GPU: correctness on small and full shapes, what was compiled, and timing against PyTorch.

Candidate and judge are two processes on one GPU; inputs and results lie in memory that the judge owns.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from egg_graph.evaluator import exchange
from egg_graph.evaluator.aot.occupancy import occupancy
from egg_graph.evaluator.compare import poison_
from egg_graph.evaluator.docket import Docket
from egg_graph.evaluator.evidence import Climb
from egg_graph.evaluator.gpu_memory import Arena
from egg_graph.evaluator.gpu_session import CandidateFailed, Session
from egg_graph.evaluator.ladder import Ladder, compile_statement, judge_leaves, spills
from egg_graph.evaluator.nursery import Limits
from egg_graph.evaluator.opponent import Opponent, flush_bytes
from egg_graph.evaluator.precision import CAST
from egg_graph.evaluator.problem import Case, Unevaluable
from egg_graph.evaluator.profile import compiled_profile, metrics_of, parse_ncu
from egg_graph.evaluator.profile_job import LARGEST_INPUT, REPORT
from egg_graph.evaluator.surroundings import clean_environment
from egg_graph.evaluator.timing import median, ratio_interval
from egg_graph.evaluator.verdict import rejecting
from egg_graph.schema import Candidate, Check, Finding, KernelResources, KernelTask, StageName, Status, Timing

PAIRS = 60
FEWEST_PAIRS = 30
TIME_BOX = 25.0
"""Seconds after which no further pair is measured once there are enough; three times that ends it in any case."""
MEMORY_FRACTION = 0.6
"""Of the GPU's memory that a candidate may take."""
WARM_SECONDS = 0.3
PROFILE_SECONDS = 180.0


@dataclass
class GpuLadder:
    """The tools of the ladder on a GPU."""

    base: Ladder
    machine: str
    profiling: bool = False
    opponents: dict[str, Opponent] = field(default_factory=dict)
    """Of the latest task alone: its tensors are large."""

    # ------------------------------------------------------------------------------------------ the whole climb

    def climb(
        self, docket: Docket, candidate: Candidate, stage: StageName | None
    ) -> tuple[Climb, tuple[Status, str] | None]:
        """All rungs, and the verdict of a kernel that passes them."""
        climb = Climb()
        if not self.base.gate(candidate, climb):
            return climb, None
        with self.base.job_folder(candidate) as folder:
            session = Session(self.base.compiling, folder, self.base.timeout)
            try:
                for name in (*(n for n in docket.shapes if n != "shrunk"), "full"):
                    if not self.correct_at(session, docket, name, climb):
                        return climb, None
                verdict = self.timed(session, docket, climb)
            except CandidateFailed as failure:
                climb.fail("timing", [failure.finding], log=failure.log)
                return climb, None
            finally:
                session.close()
            if self.profiling and not climb.failed:
                self.profile(docket, folder, climb, stage)
        return climb, verdict

    def profile(self, docket: Docket, folder: Path, climb: Climb, stage: StageName | None) -> None:
        """Nsight Compute on one more forward; what the compiler tells stays where that is not to be had."""
        case = self.opponent(docket).case
        problem = ""
        if shutil.which("ncu") is None:
            problem = "ncu is not on the PATH"
        elif case.nbytes > LARGEST_INPUT:
            problem = f"inputs and outputs of {case.nbytes >> 20} MiB are too large to hand to the profiler"
        if not problem:
            exchange.save(folder, "state", list(case.state.values()))
            exchange.save(folder, "inputs", case.inputs)
            dtype = CAST.get(docket.task.precision)
            payload = {
                "arguments": docket.arguments(case.overrides),
                "dtype": None if dtype is None else str(dtype).removeprefix("torch."),
                "state": list(case.state),
                "kernels": "|".join(sorted({r.kernel for r in climb.resources})),
                "metrics": metrics_of(stage),
                "python_path": clean_environment()["PYTHONPATH"],
            }
            limits = Limits(wall_seconds=PROFILE_SECONDS, memory_bytes=None)
            end = self.base.compiling.run("egg_graph.evaluator.profile_job:run", payload, folder, limits)
            table = folder / REPORT
            profile = parse_ncu(table.read_text(errors="replace"), stage) if table.exists() else None
            if profile is not None:
                climb.profile = profile
                climb.passed("profile", "one steady-state forward profiled with Nsight Compute", end.seconds)
                return
            problem = f"ncu gave no table ({end.cause} {end.code}): {end.log[-200:]}"
        climb.skipped("profile", f"not profiled: {problem}")
        climb.profile = compiled_profile(climb.resources, stage, problem)

    # ------------------------------------------------------------------------------------------------ correctness

    def correct_at(self, session: Session, docket: Docket, name: str, climb: Climb) -> bool:
        """One correctness rung: every seed of one shape."""
        rung = f"correctness_{name}"
        started = time.monotonic()
        checks: list[Check] = []
        against = ""
        try:
            for case in docket.full_cases() if name == "full" else docket.cases(name):
                findings, check = self.check(session, docket, case)
                against = case.against
                if check is not None:
                    climb.checks.append(check)
                    checks.append(check)
                if rejecting(findings):
                    climb.fail(rung, findings, time.monotonic() - started)
                    return False
        except CandidateFailed as failure:
            climb.fail(rung, [failure.finding], time.monotonic() - started, failure.log)
            return False
        except Unevaluable as problem:
            if name == "full":
                climb.fail(rung, [Finding(kind="degenerate_problem", message=str(problem))])
                return False
            climb.skipped(rung, f"not checked at {name} shape: {problem}")
            return True
        except torch.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            climb.skipped(
                rung, f"not checked at {name} shape: the GPU's memory does not hold the fp64 answer ({error})"
            )
            return True
        worst = max(checks, key=lambda check: check.error / check.budget if check.budget else 0.0)
        climb.passed(
            rung,
            f"right on {len(checks)} seed{'s' if len(checks) > 1 else ''} at {name} shape on {self.machine}: "
            f"error {worst.error:.1e} of a budget of {worst.budget:.1e} against {against}; "
            "every output element written, inputs unchanged",
            time.monotonic() - started,
        )
        return True

    def check(self, session: Session, docket: Docket, case: Case) -> tuple[list[Finding], Check | None]:
        """Load at a case's shape, call once in poisoned memory, compare."""
        with arena(session) as shared:
            session.ask("load", **load(case, docket, shared))
            return self.check_loaded(session, docket, case)

    def check_loaded(self, session: Session, docket: Docket, case: Case) -> tuple[list[Finding], Check | None]:
        """One call of what is loaded, and its comparison."""
        with arena(session) as shared:
            inputs, forms = share_inputs(case, shared)
            session.ask("inputs", inputs=forms, seed=case.forward_seed)
            targets = [shared.empty(leaf.expected.shape, leaf.dtype) for leaf in case.leaves]
            for tensor, _ in targets:
                poison_(tensor)
            torch.cuda.synchronize()
            answer = session.ask("call", outputs=[form for _, form in targets])
            return _judge(docket, case, answer, [tensor for tensor, _ in targets], inputs, self.machine)

    # ----------------------------------------------------------------------------------------------------- timing

    def opponent(self, docket: Docket) -> Opponent:
        """The task's baseline, measured at first need."""
        key = docket.task.digest
        if key not in self.opponents:
            self.opponents.clear()
            torch.cuda.empty_cache()
            self.opponents[key] = Opponent(docket)
        return self.opponents[key]

    def timed(self, session: Session, docket: Docket, climb: Climb) -> tuple[Status, str]:
        """Resources, share of own kernels, and the paired timing."""
        started = time.monotonic()
        opponent = self.opponent(docket)
        with arena(session) as shared:
            session.ask("load", **load(opponent.case, docket, shared))
            _, forms = share_inputs(opponent.case, shared)
            session.ask("inputs", inputs=forms, seed=opponent.case.forward_seed)
            session.ask("warm", seconds=WARM_SECONDS)
            self._note_launches(session.ask("record"), docket.task, climb)
            if climb.failed:
                return "invalid", ""
            session.ask("warm", seconds=WARM_SECONDS)
            pairs = self._pairs(lambda: session.ask("time", flush_bytes=flush_bytes()), opponent)
        climb.timing = _timing(pairs, opponent)
        status, reason = _verdict(climb.timing, docket.task.precision)
        climb.passed("timing", reason, time.monotonic() - started)
        return status, reason

    def _note_launches(self, answer: dict[str, Any], task: KernelTask, climb: Climb) -> None:
        if not answer["launches"]:
            finding = Finding(kind="no_triton_kernel", message="forward launches no Triton kernel")
            climb.fail("launches", [finding])
            return
        climb.triton_share = round(float(answer["share"]), 4)
        seen = {str((r["kernel"], r["num_warps"], r["shared"], r["registers"])): r for r in answer["launches"]}
        climb.resources = tuple(_resources(r, task) for r in seen.values())
        climb.findings += spills(climb.resources)
        climb.passed(
            "launches",
            f"{compile_statement(climb.resources, task.target.arch)}; "
            f"{climb.triton_share:.0%} of the GPU time is its own Triton kernels",
        )

    def _pairs(self, time_candidate: Callable[[], dict[str, Any]], opponent: Opponent) -> list[tuple[float, ...]]:
        """Interleaved in ABBA order: candidate ms, baseline ms, candidate by the host's clock."""
        pairs: list[tuple[float, ...]] = []
        started = time.monotonic()
        while len(pairs) < PAIRS:
            spent = time.monotonic() - started
            if (spent > TIME_BOX and len(pairs) >= FEWEST_PAIRS) or (spent > 3 * TIME_BOX and len(pairs) >= 5):
                break
            first = len(pairs) % 2 == 0
            mine = time_candidate() if first else None
            theirs = opponent.time(opponent.best)
            mine = mine if mine is not None else time_candidate()
            pairs.append((float(mine["ms"]), theirs[0], float(mine["wall_ms"])))
        return pairs


# ------------------------------------------------------------------------------------------------------- small parts


@contextmanager
def arena(session: Session | None = None) -> Iterator[Arena]:
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


def load(case: Case, docket: Docket, shared: Arena) -> dict[str, Any]:
    """Arguments of the worker's `load`: the constructor's at a case's shape, and the weights."""
    dtype = CAST.get(docket.task.precision)
    state = {name: shared.share(tensor.to(docket.device))[1] for name, tensor in case.state.items()}
    torch.cuda.synchronize()
    return {
        "arguments": docket.arguments(case.overrides),
        "dtype": None if dtype is None else str(dtype).removeprefix("torch."),
        "precision": docket.task.precision,
        "seed": case.forward_seed,
        "state": state,
        "memory_fraction": MEMORY_FRACTION,
    }


def share_inputs(case: Case, shared: Arena) -> tuple[list[Any], list[Any]]:
    """Copies of the inputs in shared memory (kept to see what became of them), and their forms."""
    copies: list[torch.Tensor] = []

    def share(tensor: torch.Tensor) -> dict[str, Any]:
        copy, form = shared.share(tensor)
        copies.append(copy)
        return form

    forms = [exchange.encode(value, share) for value in case.inputs]
    torch.cuda.synchronize()
    return copies, forms


def _judge(
    docket: Docket, case: Case, answer: dict[str, Any], got: list[torch.Tensor], inputs: list[Any], machine: str
) -> tuple[list[Finding], Check | None]:
    forms = answer["leaves"]
    strange = sorted({form["strange"] for form in forms if "strange" in form})
    if strange:
        message = f"forward returns {', '.join(strange)} where the reference returns tensors"
        return [Finding(kind="wrong_structure", message=message)], None
    if answer["structure"] != case.structure or len(forms) != len(case.leaves):
        message = f"forward returns {answer['structure']} where the reference returns {case.structure} (* is a tensor)"
        return [Finding(kind="wrong_structure", message=message)], None
    leaves: list[Any] = [
        tensor
        if form["shape"] == list(tensor.shape) and form["dtype"] == exchange.dtype_name(tensor)
        else torch.empty(form["shape"], dtype=exchange.DTYPES[form["dtype"]], device="meta")  # form alone: it is wrong
        for tensor, form in zip(got, forms, strict=True)
    ]
    findings = _mutated(docket, case, inputs)
    compared, check = judge_leaves(docket.task, case, leaves, machine=machine)
    return [*findings, *compared], check


def _mutated(docket: Docket, case: Case, copies: Sequence[torch.Tensor]) -> list[Finding]:
    tensors = [x for x in torch.utils._pytree.tree_leaves(case.inputs) if isinstance(x, torch.Tensor)]
    names = docket.reference.forward_names(len(tensors))
    return [
        Finding(
            kind="input_mutated",
            message=f"forward changes its input {name}, which the reference leaves alone",
            where=name,
            cure="write to a fresh tensor (torch.empty_like), not to the input",
        )
        for name, before, after in zip(names, tensors, copies, strict=True)
        if not _same_bytes(before, after)
    ]


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    a, b = a.contiguous().reshape(-1), b.contiguous().reshape(-1)
    return bool(torch.equal(a.view(torch.uint8), b.view(torch.uint8))) if a.numel() else True


def _resources(entry: dict[str, Any], task: KernelTask) -> KernelResources:
    grid = tuple(int(n) for n in entry["grid"])
    shared, registers = int(entry["shared"]), entry["registers"]
    return KernelResources(
        kernel=str(entry["kernel"]),
        target=task.target.arch,
        grid=grid,
        num_warps=int(entry["num_warps"]),
        num_stages=int(entry["num_stages"]),
        registers=registers,
        spill_bytes=4 * int(entry["spills"] or 0),
        shared_bytes=shared,
        shared_limit=int(task.target.figure("shared_memory_per_block")),
        occupancy=occupancy(task.target, warps=int(entry["num_warps"]), registers=int(registers), shared=shared)
        if registers
        else None,
    )


def _timing(pairs: list[tuple[float, ...]], opponent: Opponent) -> Timing:
    mine, theirs, wall = ([pair[i] for pair in pairs] for i in range(3))
    ratio, low, high = ratio_interval(mine, theirs)
    best: Literal["eager", "compile"] = "compile" if opponent.best == "compile" else "eager"
    measured = {**opponent.milliseconds, best: median(theirs)}
    notes = [
        *opponent.notes,
        f"L2 flushed before every call ({flush_bytes() >> 20} MiB written); events round the call; ABBA order",
    ]
    if median(wall) > 2 * median(mine) + 1.0:
        notes.append(f"by the host's clock a call takes {median(wall):.3f} ms: launching costs more than the kernels")
    return Timing(
        candidate_ms=median(mine),
        eager_ms=measured["eager"],
        compile_ms=measured.get("compile"),
        eager_fp32_ms=opponent.eager_fp32_ms,
        baseline=best,
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        pairs=len(pairs),
        notes=tuple(notes),
    )


def _verdict(timing: Timing, precision: str) -> tuple[Status, str]:
    baseline = "torch.compile" if timing.baseline == "compile" else "PyTorch eager"
    baseline_ms = timing.compile_ms if timing.baseline == "compile" else timing.eager_ms
    status: Status = "faster" if timing.ratio_low > 1 else "slower" if timing.ratio_high < 1 else "inconclusive"
    return status, (
        f"{timing.ratio:.2f}x (95 % interval {timing.ratio_low:.2f} to {timing.ratio_high:.2f}, {timing.pairs} pairs) "
        f"against {baseline} at {precision}: {timing.candidate_ms:.4g} ms against {baseline_ms:.4g} ms"
    )
