"""Screening: cheaper evidence for many configurations of one kernel, enough to rank them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from egg_graph.evaluator.docket import Docket
from egg_graph.evaluator.evidence import Climb
from egg_graph.evaluator.gpu_session import CandidateFailed, Session
from egg_graph.evaluator.timing import median
from egg_graph.evaluator.verdict import reason_of, rejecting, status_of
from egg_graph.schema import Candidate, Evaluation, Finding, Trial

if TYPE_CHECKING:
    from egg_graph.evaluator.gpu_ladder import GpuLadder
    from egg_graph.evaluator.ladder import Ladder

TOGETHER = 4
"""Configurations that compile side by side on a GPU host; they are timed one by one."""
SHORT = 10
"""Timed calls of each."""


def screen_without_gpu(ladder: Ladder, docket: Docket, candidates: Sequence[Candidate]) -> list[Trial]:
    """Static gate, full-shape launches and compilation for each, side by side; merit as in `Evaluation.merit`.

    One broken configuration is one failed Trial; the others do not notice.
    """
    return list(ladder.pool.map(lambda candidate: _trial(ladder, docket, candidate), candidates))


def _trial(ladder: Ladder, docket: Docket, candidate: Candidate) -> Trial:
    climb = Climb()
    if ladder.gate(candidate, climb):
        climb = ladder.full_shape(docket, candidate)
    rejected = rejecting(climb.findings)
    if rejected:
        return _rejected(candidate, climb.findings)
    evidence = Evaluation(
        candidate=candidate.id,
        task=docket.task.digest,
        status="correct",
        reason="",
        bound=climb.bound,
        resources=climb.resources,
    )
    return Trial(
        config=candidate.config,
        status="correct",
        reason="compiles and stays in bounds at full shape; answers not compared",
        merit=evidence.merit,
    )


def screen_on_gpu(ladder: GpuLadder, docket: Docket, candidates: Sequence[Candidate]) -> list[Trial]:
    """Compilation side by side, one correctness check each at full shape, then a short timing one by one."""
    trials: list[Trial] = []
    for at in range(0, len(candidates), TOGETHER):
        trials += _batch(ladder, docket, candidates[at : at + TOGETHER])
    return trials


def _batch(ladder: GpuLadder, docket: Docket, candidates: Sequence[Candidate]) -> list[Trial]:
    from egg_graph.evaluator.gpu_ladder import arena, load, share_inputs

    case = ladder.opponent(docket).case
    with ExitStack() as stack:
        shared = stack.enter_context(arena())
        _, forms = share_inputs(case, shared)
        state = load(case, docket, shared)

        def prepare(candidate: Candidate) -> Session | Trial:
            """A warm worker, or why there is none."""
            climb = Climb()
            if not ladder.base.gate(candidate, climb):
                return _rejected(candidate, climb.findings)
            with lock:
                folder = stack.enter_context(ladder.base.job_folder(candidate))
                session = Session(ladder.base.compiling, folder, ladder.base.timeout)
                stack.callback(session.close)
            try:
                session.ask("load", **state)
                session.ask("inputs", inputs=forms, seed=case.forward_seed)
                session.ask("warm", seconds=0.0)
            except CandidateFailed as failure:
                return _rejected(candidate, [failure.finding])
            return session

        lock = threading.Lock()
        ready = list(ladder.base.pool.map(prepare, candidates))
        return [
            session if isinstance(session, Trial) else _measured(ladder, docket, candidate, session, forms)
            for candidate, session in zip(candidates, ready, strict=True)
        ]


def _measured(ladder: GpuLadder, docket: Docket, candidate: Candidate, session: Session, forms: list[Any]) -> Trial:
    """Check the answer once, then time it."""
    from egg_graph.evaluator.opponent import flush_bytes

    case = ladder.opponent(docket).case
    try:
        findings, _ = ladder.check_loaded(session, docket, case)
        if rejecting(findings):
            return _rejected(candidate, findings)
        session.ask("inputs", inputs=forms, seed=case.forward_seed)
        times = [float(session.ask("time", flush_bytes=flush_bytes())["ms"]) for _ in range(3 + SHORT)][3:]
    except CandidateFailed as failure:
        return _rejected(candidate, [failure.finding])
    finally:
        session.close()
    milliseconds = median(times)
    return Trial(
        config=candidate.config,
        status="correct",
        reason=f"right on one seed at full shape; median of {SHORT} calls",
        milliseconds=milliseconds,
        merit=(0.0, milliseconds),
    )


def _rejected(candidate: Candidate, findings: Sequence[Finding]) -> Trial:
    return Trial(config=candidate.config, status=status_of(findings), reason=reason_of(rejecting(findings)[0]))
