"""The timing rung: candidate against PyTorch's best in turns, on one GPU, at full shape.

A turn is one block of calls (`gpu_clock.time_block`) of each, candidate first in even turns and baseline first in odd
ones (ABBA). The i-th call of the one and of the other make a pair. Before a block that nobody can foresee, the inputs
are exchanged where they lie, and an answer of that very block is compared with the reference's.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from egg_graph.evaluator.compare import poison_
from egg_graph.evaluator.docket import Docket
from egg_graph.evaluator.gpu_answers import (
    arena,
    judge_answer,
    load,
    poisoned_targets,
    refill,
    share_inputs,
    source_of,
)
from egg_graph.evaluator.gpu_clock import LEAD, Pace, flush_bytes
from egg_graph.evaluator.gpu_session import Session
from egg_graph.evaluator.opponent import Opponent
from egg_graph.evaluator.timing import median, ratio_interval
from egg_graph.schema import Check, Finding, Status, Timing

BLOCK = 4
"""Recorded calls of one block."""
FEWEST_PAIRS, PAIRS = 32, 120
TIME_BOX = 1.5
"""Seconds after which no further turn begins once there are enough pairs."""
CEILING = 120.0
"""Seconds that end it with fewer (five at least), which is told."""
SLOW_MS = 500.0
"""A forward that takes longer is measured in blocks of one call."""
WARM_SECONDS = 0.3


@dataclass
class Race:
    """What the timing rung established."""

    launches: dict[str, Any]
    """The worker's answer to `record`."""
    timing: Timing | None = None
    """None where the forward launches no Triton kernel, or an answer was wrong."""
    findings: list[Finding] = field(default_factory=list)
    check: Check | None = None
    """Of an answer of a timed call; None where the reference cannot be given other inputs."""


def race(session: Session, docket: Docket, opponent: Opponent, machine: str) -> Race:
    """Load at full shape, record the launches of one forward, and time it against the opponent.

    Raises:
        CandidateFailed: if a call does not come back.
    """
    case = opponent.case
    with arena(session) as shared:
        session.ask("load", **load(case, docket, shared))
        inputs, forms = share_inputs(case, shared)
        session.ask("inputs", inputs=forms, seed=case.forward_seed)
        targets, target_forms = poisoned_targets(case, shared)
        pace = Pace(**session.ask("warm", seconds=WARM_SECONDS))
        found = Race(session.ask("record"))
        if not found.launches["launches"]:
            return found
        slow = max(pace.wall_ms, opponent.paces[opponent.best].wall_ms) > SLOW_MS
        turns = Turns(slow=slow)
        checked = 1 + secrets.randbelow(3 if slow else FEWEST_PAIRS // BLOCK - 1) if opponent.fresh is not None else -1

        def candidate(turn: int) -> list[float]:
            if turn == checked and opponent.fresh is not None:
                for target in targets:
                    poison_(target)
                refill(inputs, opponent.fresh)
            keep = secrets.randbelow(turns.block)  # always: a block whose answer is compared looks like any other
            answer = session.ask(
                "time",
                calls=turns.block,
                lead=turns.lead,
                spin_cycles=pace.spin_cycles,
                keep=keep,
                outputs=target_forms,
            )
            if turn == checked and opponent.fresh is not None:
                findings, found.check = judge_answer(
                    docket, opponent.fresh, answer, targets, inputs, machine, source_of(session)
                )
                found.findings += findings
            return [float(ms) for ms in answer["ms"]]

        turns.take(candidate, lambda turn: opponent.time(opponent.best, turns.block, turns.lead))
    found.timing = _timing(turns, opponent, pace)
    return found


class Turns:
    """Blocks of candidate and baseline, in ABBA order."""

    def __init__(self, *, slow: bool = False) -> None:
        self.block, self.lead = (1, 1) if slow else (BLOCK, LEAD)
        self.mine: list[float] = []
        self.theirs: list[float] = []

    def take(self, mine: Callable[[int], list[float]], theirs: Callable[[int], list[float]]) -> None:
        """Measure until there is enough. Each gets the turn's number and returns milliseconds, one per call."""
        started = time.monotonic()
        turn = 0
        while len(self.mine) < PAIRS:
            spent = time.monotonic() - started
            if (spent > TIME_BOX and len(self.mine) >= FEWEST_PAIRS) or (spent > CEILING and len(self.mine) >= 5):
                break
            if turn % 2 == 0:
                self.mine += mine(turn)
                self.theirs += theirs(turn)
            else:
                self.theirs += theirs(turn)
                self.mine += mine(turn)
            turn += 1


def _timing(turns: Turns, opponent: Opponent, pace: Pace) -> Timing:
    ratio, low, high = ratio_interval(turns.mine, turns.theirs, block=turns.block)
    best: Literal["eager", "compile"] = "compile" if opponent.best == "compile" else "eager"
    measured = {**opponent.milliseconds, best: median(turns.theirs)}
    milliseconds = median(turns.mine)
    notes = [
        *opponent.notes,
        f"blocks of {turns.block} after {turns.lead} unrecorded, in turns (ABBA); before every call the L2 cache is "
        f"flushed ({flush_bytes() >> 20} MiB written) and the GPU kept busy until the forward is queued",
    ]
    if len(turns.mine) < FEWEST_PAIRS:
        notes.append(f"{len(turns.mine)} pairs alone: {CEILING:.0f} s were over")
    if pace.wall_ms > 2 * milliseconds + 0.05:
        notes.append(
            f"by the host's clock a lone call takes {pace.wall_ms:.3f} ms ({pace.host_ms:.3f} ms of it to queue): "
            "launching costs more than the kernels"
        )
    return Timing(
        candidate_ms=milliseconds,
        eager_ms=measured["eager"],
        compile_ms=measured.get("compile"),
        eager_fp32_ms=opponent.eager_fp32_ms,
        baseline=best,
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        pairs=len(turns.mine),
        block=turns.block,
        candidate_calls_ms=tuple(round(ms, 5) for ms in turns.mine),
        baseline_calls_ms=tuple(round(ms, 5) for ms in turns.theirs),
        notes=tuple(notes),
    )


def verdict(timing: Timing, precision: str) -> tuple[Status, str]:
    """Faster or slower only where the interval says so."""
    baseline = "torch.compile" if timing.baseline == "compile" else "PyTorch eager"
    baseline_ms = timing.compile_ms if timing.baseline == "compile" else timing.eager_ms
    status: Status = "faster" if timing.ratio_low > 1 else "slower" if timing.ratio_high < 1 else "inconclusive"
    return status, (
        f"{timing.ratio:.2f}x (95 % interval {timing.ratio_low:.2f} to {timing.ratio_high:.2f}, {timing.pairs} pairs) "
        f"against {baseline} at {precision}: {timing.candidate_ms:.4g} ms against {baseline_ms:.4g} ms"
    )
