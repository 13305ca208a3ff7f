"""Leave one part of a run out, and measure what it is worth: what `--without` can name.

A part is here only if the run's own knobs switch it off. Every ablation runs on the same problems as the whole, so that
problems are matched pairs.
"""

import math
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np

from egg_graph.bench.statistics import Draws, Interval, exp_mean
from egg_graph.bench.values import Row
from egg_graph.context import Context
from egg_graph.schema import BadInput, StageName, Value

FIRST: StageName = "algorithmic_structure"

PARTS: dict[str, str] = {
    "tuner": "no sweep of configurations (tune=False)",
    "stage-one": "no algorithmic structure stage: the first tuning stage writes the seed",
    "stage-two": "no tuning stages: the run ends behind the algorithmic structure",
    "parallel-mapping": "stage two without its first part",
    "tensor-tiling": "stage two without its second part",
    "memory-optimization": "stage two without its third part",
    "hierarchy": "one flat stage with the optimizations of all stages (as many attempts, one objective)",
    "inter-stage-context": "no summaries of earlier stages in any brief (inter_stage_context=False)",
    "principles": "no expert principles in any brief",
    "debugger": "no repair of a broken kernel (max_repairs=0)",
    "analyst": "no optimization after the seed (max_optimizations=0); the tuner stays",
    "contender": "no attempt 0 of the embedded expert's before a model is asked (expert_seed=False)",
    "profile": "no Nsight Compute metrics (profile=False)",
}
"""What can be left out, and what that does."""


class Ablation(Value):
    """What one part is worth, over the problems that have a row with it and a row without it."""

    without: str
    pairs: int
    usable: int
    """Usable kernels without the part."""
    usable_whole: int
    """Usable kernels of the same problems with it."""
    gain: Interval | None = None
    """Geometric mean of the ratio with the part over the ratio without it, a failure being 1.0 on either side; None
    where no kernel was timed."""
    better: int = 0
    """Problems with a higher ratio with the part, by more than both intervals."""
    worse: int = 0
    """Problems with a lower one, by more than both intervals."""
    seconds_ratio: float | None = None
    """Median of the seconds without the part over those with it."""


def check_parts(names: Sequence[str]) -> None:
    """Refuse names of parts that no knob leaves out.

    Raises:
        BadInput: if a name is unknown; the message lists those there are.
    """
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise BadInput(f"without: no knob leaves out {unknown[0]!r}; choose among {', '.join(PARTS)}")


def knobs_without(part: str, context: Context) -> dict[str, Any]:
    """The knobs that leave a part out of runs with `context`; empty where no knob of `Context` does."""
    stages = context.stages
    match part:
        case "tuner":
            return {"tune": False}
        case "inter-stage-context":
            return {"inter_stage_context": False}
        case "debugger":
            return {"max_repairs": 0}
        case "analyst":
            return {"max_optimizations": 0}
        case "contender":
            return {"expert_seed": False}
        case "profile":
            return {"profile": False}
        case "hierarchy":
            return {"stages": (FIRST,), "max_optimizations": context.max_optimizations * len(stages)}
        case "stage-two":
            return {"stages": _left(stages, [stage for stage in get_args(StageName) if stage != FIRST], part)}
        case "stage-one":
            return {"stages": _left(stages, [FIRST], part)}
        case "principles":
            return {}
    return {"stages": _left(stages, [part.replace("-", "_")], part)}


def services_without(part: str) -> dict[str, Any]:
    """What `optimize` is given beside knobs to leave a part out."""
    return {"principles": ()} if part == "principles" else {}


def _left(stages: Sequence[StageName], gone: Sequence[str], part: str) -> tuple[StageName, ...]:
    left = tuple(stage for stage in stages if stage not in gone)
    if not left or left == tuple(stages):
        raise BadInput(f"without: {part} leaves the stages {', '.join(left) or 'none'} of {', '.join(stages)}")
    return left


def ablations(rows: Sequence[Row], parts: Sequence[str]) -> tuple[Ablation, ...]:
    """One line for every part, of all rows of a bench."""
    whole = {(row.name, row.source): row for row in rows if not row.without}
    return tuple(
        _ablation(
            part,
            [(whole[key], row) for row in rows if (key := (row.name, row.source)) in whole and row.without == part],
        )
        for part in parts
    )


def _ablation(part: str, pairs: Sequence[tuple[Row, Row]]) -> Ablation:
    counts: dict[str, Any] = {
        "pairs": len(pairs),
        "usable": sum(row.usable for _, row in pairs),
        "usable_whole": sum(row.usable for row, _ in pairs),
    }
    timed = [pair for pair in pairs if any(row.usable and row.ratio is not None for row in pair)]
    if not timed:
        return Ablation(without=part, **counts)
    logs = np.array([math.log(whole.score / other.score) for whole, other in pairs])
    draws = Draws(len(pairs))
    gain = draws.interval(logs[draws.index], logs, exp_mean)
    spans = [(_span(whole), _span(other)) for whole, other in pairs]
    seconds = [other.seconds / whole.seconds for whole, other in pairs if whole.seconds]
    return Ablation(
        without=part,
        **counts,
        gain=gain,
        better=sum(whole[0] > other[1] for whole, other in spans),
        worse=sum(whole[1] < other[0] for whole, other in spans),
        seconds_ratio=float(np.median(seconds)) if seconds else None,
    )


def _span(row: Row) -> tuple[float, float]:
    """The interval of a row's score."""
    if row.usable and row.ratio_low is not None and row.ratio_high is not None:
        return row.ratio_low, row.ratio_high
    return row.score, row.score
