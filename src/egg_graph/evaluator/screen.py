"""Screening: cheaper evidence for many configurations of one kernel, enough to rank them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from egg_graph.evaluator.docket import Docket
from egg_graph.evaluator.evidence import Climb
from egg_graph.evaluator.verdict import reason_of, rejecting, status_of
from egg_graph.schema import Candidate, Evaluation, Trial

if TYPE_CHECKING:
    from egg_graph.evaluator.ladder import Ladder


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
        return Trial(config=candidate.config, status=status_of(climb.findings), reason=reason_of(rejected[0]))
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
