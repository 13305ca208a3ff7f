"""Screening: cheaper evidence for many configurations of one kernel, enough to rank them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.evidence.findings import reason_of, rejecting, status_of
from egg_graph.evaluator.gpu.timing.ratio import median
from egg_graph.evaluator.gpu.worker_session import CandidateFailed, WorkerSession
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Candidate, Evaluation, Finding, Trial

if TYPE_CHECKING:
    from egg_graph.evaluator.gpu.ladder import GpuLadder
    from egg_graph.evaluator.gpuless.ladder import Ladder

TOGETHER = 8
"""Configurations that start and compile side by side on a GPU host; they are checked and timed one by one, while the
others' processes do nothing."""
MEMORY_PART = 0.4
"""Of the GPU's free memory that they may be expected to take together."""
SHORT = 12
"""Timed calls of each, in one block."""


def screen_without_gpu(ladder: Ladder, problem: Problem, candidates: Sequence[Candidate]) -> list[Trial]:
    """Static gate, full-shape launches and compilation for each, side by side; merit as in `Evaluation.merit`.

    One broken configuration is one failed Trial; the others do not notice.
    """
    return list(ladder.pool.map(lambda candidate: _trial(ladder, problem, candidate), candidates))


def _trial(ladder: Ladder, problem: Problem, candidate: Candidate) -> Trial:
    builder = EvaluationBuilder()
    if ladder.gate(candidate, builder):
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
    """Compilation side by side, one correctness check each at full shape, then a short timing one by one."""
    case = ladder.baseline(problem).case
    trials: list[Trial] = []
    together = _together(case.nbytes + sum(x.numel() * x.element_size() for x in case.state.values()))
    for at in range(0, len(candidates), together):
        trials += _batch(ladder, problem, candidates[at : at + together])
    return trials


def _together(nbytes: int) -> int:
    """How many fit, if each takes three times what the task's tensors do and a gigabyte for its context."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    return max(1, min(TOGETHER, int(MEMORY_PART * free) // (3 * nbytes + (1 << 30))))


def _batch(ladder: GpuLadder, problem: Problem, candidates: Sequence[Candidate]) -> list[Trial]:
    from egg_graph.evaluator.gpu.answers import arena, load, share_inputs

    case = ladder.baseline(problem).case
    sessions: list[WorkerSession] = []
    with ExitStack() as stack:
        shared = stack.enter_context(arena())
        _, forms = share_inputs(case, shared)
        state = load(case, problem, shared)
        folders = [stack.enter_context(ladder.base.jobs.job_folder(candidate)) for candidate in candidates]
        # At the end alone, and all at once: the driver's clearing up after one would disturb the timing of the next.
        stack.callback(lambda: list(ladder.base.pool.map(WorkerSession.close, sessions)))

        def prepare(candidate: Candidate, folder: Path) -> WorkerSession | Trial:
            """A warm worker, or why there is none."""
            builder = EvaluationBuilder()
            if not ladder.base.gate(candidate, builder):
                return _rejected(candidate, builder.findings)
            try:
                session = ladder.open(folder, watched=False)
                sessions.append(session)
                session.ask("load", **state)
                session.ask("inputs", inputs=forms, seed=case.forward_seed)
                session.ask("warm", seconds=0.0)
            except CandidateFailed as failure:
                return _rejected(candidate, [failure.finding])
            return session

        ready = list(ladder.base.pool.map(prepare, candidates, folders))
        return [
            session if isinstance(session, Trial) else _measured(ladder, problem, candidate, session, forms)
            for candidate, session in zip(candidates, ready, strict=True)
        ]


def _measured(
    ladder: GpuLadder, problem: Problem, candidate: Candidate, session: WorkerSession, forms: list[Any]
) -> Trial:
    """Check the answer once, then time it; the others' processes are idle."""
    from egg_graph.evaluator.device.clock import LEAD
    from egg_graph.evaluator.gpu.executor import GpuExecutor
    from egg_graph.evaluator.problem.plan import loaded_group

    case = ladder.baseline(problem).case
    try:
        outcome = GpuExecutor(session, problem, ladder.machine).carry_out(loaded_group(case))
        if outcome.failed:
            return _rejected(candidate, outcome.findings)
        session.ask("inputs", inputs=forms, seed=case.forward_seed)
        pace = session.ask("warm", seconds=0.05)
        block = session.ask("series", calls=SHORT, lead=LEAD, queued_ms=pace["host_ms"])
    except CandidateFailed as failure:
        return _rejected(candidate, [failure.finding])
    milliseconds = median([float(ms) for ms in block["ms"]])
    return Trial(
        config=candidate.config,
        status="correct",
        reason=f"right on one seed at full shape; median of {SHORT} calls",
        milliseconds=milliseconds,
        merit=(0.0, milliseconds),
    )


def _rejected(candidate: Candidate, findings: Sequence[Finding]) -> Trial:
    return Trial(config=candidate.config, status=status_of(findings), reason=reason_of(rejecting(findings)[0]))
