"""What each part of a model's run was worth, told from runs of the same problems without it: matched pairs."""

from collections.abc import Sequence
from statistics import geometric_mean, median

from egg_graph.bench.statistics import Interval
from egg_graph.schema import Value
from tests.lab.model_runs_parts import gain_of
from tests.lab.model_runs_table import ModelRunRow


class PartLeftOut(Value):
    """Whole runs against runs without one part, over the problems that have both."""

    part: str
    pairs: int
    whole: float
    """Geometric mean of the best measured ratio of the whole runs, at least 1.0 each."""
    without: float
    """The same of the runs without the part."""
    gain: Interval
    """Geometric mean of the one over the other."""
    better: int
    """Problems with a faster kernel with the part, by more than 1 %."""
    worse: int
    calls_whole: float
    """Median of the requests to models."""
    calls_without: float
    tokens_whole: float
    """Median of the tokens of prompts."""
    tokens_without: float


def parts_left_out(rows: Sequence[ModelRunRow], others: Sequence[ModelRunRow]) -> tuple[PartLeftOut, ...]:
    """One line for every part.

    Args:
        rows: whole runs.
        others: runs without a part; one whose problem has no whole run is left aside.
    """
    whole = {row.problem: row for row in rows}
    parts = dict.fromkeys(other.left_out for other in others)
    pairs = {
        part: [(whole[o.problem], o) for o in others if o.left_out == part and o.problem in whole] for part in parts
    }
    return tuple(_left_out(part, both) for part, both in pairs.items() if both)


def _left_out(part: str, pairs: Sequence[tuple[ModelRunRow, ModelRunRow]]) -> PartLeftOut:
    ratios = [(row.without[""], other.without[""]) for row, other in pairs]
    gain = gain_of(ratios)
    return PartLeftOut(
        part=part,
        pairs=len(pairs),
        whole=geometric_mean(one for one, _ in ratios),
        without=geometric_mean(other for _, other in ratios),
        gain=gain.mean,
        better=gain.better,
        worse=gain.worse,
        calls_whole=median(row.cost.calls for row, _ in pairs),
        calls_without=median(other.cost.calls for _, other in pairs),
        tokens_whole=median(row.cost.input_tokens for row, _ in pairs),
        tokens_without=median(other.cost.input_tokens for _, other in pairs),
    )
