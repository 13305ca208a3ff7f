"""The lower bound on time beside a GPU: one forward at full shape in the interpreter, while the GPU works."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from egg_graph.evaluator.evidence import Climb
from egg_graph.evaluator.gpuless.ladder import Ladder
from egg_graph.evaluator.problem.docket import Docket
from egg_graph.evaluator.verdict import reason_of, rejecting
from egg_graph.schema import Candidate, FindingKind, InfrastructureError, KernelTask

FAKE_BUDGET, FAKE_SECONDS = 1.0, 20.0
"""Seconds that the interpreter may take for the lower bound: per launch, after the first two programs, and in all."""
PROVEN_BY_FAKES: frozenset[FindingKind] = frozenset({"out_of_bounds", "library_call"})
"""What the interpreter's word rejects even where the GPU's answer is right."""


def begin(base: Ladder, docket: Docket, candidate: Candidate) -> Future[Climb]:
    """Start it in the background; inputs are drawn here, in the judge's own thread: random numbers have one source."""
    call = base.fake_call(docket, FAKE_BUDGET, min(FAKE_SECONDS, base.timeout))
    return base.pool.submit(_bound, base, docket.task, candidate, call)


def absorb(bounding: Future[Climb], climb: Climb) -> None:
    """Wait for it and add what it proved."""
    try:
        climb.absorb(bounding.result())
    except InfrastructureError as error:  # the evidence of the GPU stands without it
        climb.skipped("roofline", f"no lower bound: {error}")


def _bound(base: Ladder, task: KernelTask, candidate: Candidate, call: dict[str, Any]) -> Climb:
    """The full-shape run and the bound that follows; what fails there proves nothing."""
    found = Climb()
    run = base.launches(task, candidate, call, found)
    if run is not None:
        base.roofline(task, run, found)
        return found
    proven = [finding for finding in found.findings if finding.kind in PROVEN_BY_FAKES]
    if found.failed and not proven:
        seconds = sum(rung.seconds for rung in found.rungs)
        why = reason_of(rejecting(found.findings)[0])
        found = Climb()
        found.skipped("full_shape_launches", f"not proven at full shape: the interpreter stopped: {why}", seconds)
    found.skipped("roofline", "no lower bound: the launches at full shape are not known")
    return found
