"""What each part of a model's run was worth, told from its own attempts: matched pairs without a further run.

A part is left out by leaving out the kernels that it made, and those that were made from them; the run would have kept
the best of the rest. What a model would have written instead is not known, so a part that it would have made up for is
told too large here.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from egg_graph.bench.statistics import Draws, Interval, exp_mean
from egg_graph.schema import USABLE, Attempt, StageName, Value

FIRST: StageName = "algorithmic_structure"
MORE = math.log(1.01)
"""Logarithm of the quotient from which on a kernel counts as faster than another."""
PARTS: dict[str, Callable[[Attempt], bool]] = {
    "tuner": lambda attempt: attempt.candidate.mode == "tune",
    "debugger": lambda attempt: attempt.candidate.mode == "repair",
    "stage-two": lambda attempt: attempt.candidate.stage != FIRST,
    "analyst": lambda attempt: attempt.candidate.mode == "optimize",
    "contender": lambda attempt: attempt.number == 0,
    "team": lambda attempt: attempt.number > 0 and attempt.candidate.mode != "tune",
}
"""The part, and which attempts are its own. `team` is the model itself: what is left is attempt 0 and its sweeps."""


class PartWorth(Value):
    """What one part was worth, over all problems."""

    part: str
    gain: Interval
    """Geometric mean of the run's best ratio over the best without the part; a problem without a kernel is 1.0."""
    better: int
    """Problems whose best kernel would have been slower by more than 1 %."""


def without_part(attempts: Sequence[Attempt], part: str) -> float:
    """The best measured ratio, at least 1.0, of the attempts that the part had no hand in."""
    gone: set[str] = set()
    best = 1.0
    for attempt in sorted(attempts, key=lambda one: one.number):
        candidate, timing = attempt.candidate, attempt.evaluation.timing
        if part and (PARTS[part](attempt) or candidate.parent in gone):
            gone.add(candidate.id)
        elif attempt.evaluation.status in USABLE and timing is not None:
            best = max(best, timing.ratio)
    return best


def parts_worth(ratios: Sequence[dict[str, float]]) -> tuple[PartWorth, ...]:
    """One line for every part.

    Args:
        ratios: of every problem, by part that is left out; "" is the whole run.
    """
    if not ratios:
        return ()
    gains = {part: gain_of([(each[""], each[part]) for each in ratios]) for part in PARTS}
    return tuple(PartWorth(part=part, gain=gain.mean, better=gain.better) for part, gain in gains.items())


class Gain(NamedTuple):
    """Ratios with a part over those without it, problem by problem."""

    mean: Interval
    """Geometric mean."""
    better: int
    """Problems with a higher ratio with the part, by more than 1 %."""
    worse: int


def gain_of(pairs: Sequence[tuple[float, float]]) -> Gain:
    """Compare ratios with a part and without it, at least one pair."""
    logs = np.array([math.log(whole / without) for whole, without in pairs])
    draws = Draws(len(pairs))
    mean = draws.interval(logs[draws.index], logs, exp_mean)
    return Gain(mean, better=int(np.sum(logs > MORE)), worse=int(np.sum(logs < -MORE)))
