"""Screen many configurations of one kernel by cheaper evidence, enough to rank them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.evidence.findings import reason_of, rejecting, status_of
from egg_graph.evaluator.gpu.timing.statistics import median
from egg_graph.evaluator.gpu.worker_session import CandidateFailed, WorkerSession
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.progress import hear_progress, heard_here, report_progress
from egg_graph.evaluator.spending import spending_on
from egg_graph.schema import Candidate, Evaluation, Finding, Trial

if TYPE_CHECKING:
    from egg_graph.evaluator.gpu.ladder import GpuLadder
    from egg_graph.evaluator.gpuless.ladder import GpulessLadder

TOGETHER = 8
"""Configurations that start and compile side by side on a GPU host; they are checked and timed one by one, while the
others' processes do nothing."""
MEMORY_PART = 0.4
"""Start as many configurations at once as fit in this fraction of the free GPU memory."""
SHORT = 12
"""Number of timed calls of each configuration, in one block."""


def screen_without_gpu(ladder: GpulessLadder, problem: Problem, candidates: Sequence[Candidate]) -> list[Trial]:
    """Run static gate, full-shape launches and compilation of each, side by side; merit as in `Evaluation.merit`.

    One broken configuration is one failed Trial; the others do not notice.
    """

    def screen(number: int, candidate: Candidate, rejected: Trial | None) -> Trial:
        report_progress("compiles and launches at full shape", number=number)
        with hear_progress(None):  # the rungs of several configurations at once would tell nothing
            trial = rejected or _trial(ladder, problem, candidate)
        report_progress(number=number, trial=trial)
        return trial

    gated = _gate(ladder, candidates)
    with spending_on("compile"):
        return list(ladder.pool.map(heard_here(screen), range(len(candidates)), candidates, gated))


def _gate(ladder: GpulessLadder, candidates: Sequence[Candidate]) -> list[Trial | None]:
    """Apply the static gate to each: the failed trial of those that it rejects, None for the others.

    One after the other, because `ast.parse` of CPython 3.11 counts its depth for all threads together and raises a
    SystemError where two threads parse at once.
    """
    builders = [EvaluationBuilder() for _ in candidates]
    with hear_progress(None):
        passed = [ladder.gate(candidate, builder) for candidate, builder in zip(candidates, builders, strict=True)]
    return [
        None if right else _rejected(candidate, builder.findings)
        for candidate, builder, right in zip(candidates, builders, passed, strict=True)
    ]


def _trial(ladder: GpulessLadder, problem: Problem, candidate: Candidate) -> Trial:
    builder = ladder.full_shape(problem, candidate)
    rejected = rejecting(builder.findings)
    if rejected:
        return _rejected(candidate, builder.findings)
    evidence = Evaluation(
        candidate=candidate.id,
        task=problem.task.digest,
        status="correct",
        reason="",
        bound=builder.bound,
        resources=builder.resources,
    )
    return Trial(
        config=candidate.config,
        status="correct",
        reason="compiles and stays in bounds at full shape; answers not compared",
        merit=evidence.merit,
    )


def screen_on_gpu(ladder: GpuLadder, problem: Problem, candidates: Sequence[Candidate]) -> list[Trial]:
    """Compile all side by side, check each once at full shape, then time them one by one."""
    case = ladder.baseline(problem).case
    trials: list[Trial] = []
    together = _together(case.nbytes + sum(x.numel() * x.element_size() for x in case.state.values()))
    for at in range(0, len(candidates), together):
        trials += _batch(ladder, problem, candidates[at : at + together], at)
    return trials


def _together(nbytes: int) -> int:
    """How many configurations fit in memory at once, each with 3x the task's tensors and 1 GiB for its context."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    return max(1, min(TOGETHER, int(MEMORY_PART * free) // (3 * nbytes + (1 << 30))))


def _batch(ladder: GpuLadder, problem: Problem, candidates: Sequence[Candidate], first: int) -> list[Trial]:
    """Screen some of the candidates; `first` is the number of the first one in the sweep."""
    from egg_graph.evaluator.gpu.answers import arena, load, share_inputs

    case = ladder.baseline(problem).case
    sessions: list[WorkerSession] = []
    with ExitStack() as stack:
        shared = stack.enter_context(arena())
        with case.held():
            _, forms = share_inputs(case, shared)
        state = load(case, problem, shared)
        folders = [stack.enter_context(ladder.base.jobs.job_folder(candidate)) for candidate in candidates]
        # At the end alone, and all at once: the driver's clearing up after one would disturb the timing of the next.
        stack.callback(lambda: list(ladder.base.pool.map(WorkerSession.close, sessions)))

        def prepare(number: int, candidate: Candidate, folder: Path, rejected: Trial | None) -> WorkerSession | Trial:
            """Start and warm a worker; return the failed trial if that fails."""
            report_progress("compiles", number=number)
            if rejected is not None:
                return rejected
            try:
                session = ladder.open(folder, watched=False)
                sessions.append(session)
                session.ask("load", **state)
                session.ask("inputs", inputs=forms, seed=case.forward_seed)
                session.ask("warm_up", seconds=0.0)
            except CandidateFailed as failure:
                return _rejected(candidate, [failure.finding])
            return session

        gated = _gate(ladder.base, candidates)
        numbers = range(first, first + len(candidates))
        with spending_on("compile"):
            ready = list(ladder.base.pool.map(heard_here(prepare), numbers, candidates, folders, gated))
        trials: list[Trial] = []
        for number, candidate, session in zip(numbers, candidates, ready, strict=True):
            trial = session if isinstance(session, Trial) else _measured(ladder, problem, candidate, session, forms)
            report_progress(number=number, trial=trial)
            trials.append(trial)
        return trials


def _measured(
    ladder: GpuLadder, problem: Problem, candidate: Candidate, session: WorkerSession, forms: list[Any]
) -> Trial:
    """Check the answer once, then time it, while the other processes are idle."""
    from egg_graph.evaluator.device.stream_timer import WARMUP_CALLS
    from egg_graph.evaluator.gpu.executor import GpuExecutor
    from egg_graph.evaluator.problem.plan import loaded_group

    case = ladder.baseline(problem).case
    try:
        with spending_on("correctness"):
            outcome = GpuExecutor(session, problem, ladder.machine).carry_out(loaded_group(case))
        if outcome.failed:
            return _rejected(candidate, outcome.findings)
        with spending_on("timing"):
            session.ask("inputs", inputs=forms, seed=case.forward_seed)
            latency = session.ask("warm_up", seconds=0.05)
            block = session.ask("time_series", calls=SHORT, warmup_calls=WARMUP_CALLS, queue_ms=latency["queue_ms"])
    except CandidateFailed as failure:
        return _rejected(candidate, [failure.finding])
    milliseconds = median([float(ms) for ms in block["event_ms"]])
    return Trial(
        config=candidate.config,
        status="correct",
        reason=f"right on one seed at full shape; median of {SHORT} calls",
        milliseconds=milliseconds,
        merit=(0.0, milliseconds),
    )


def _rejected(candidate: Candidate, findings: Sequence[Finding]) -> Trial:
    return Trial(config=candidate.config, status=status_of(findings), reason=reason_of(rejecting(findings)[0]))
