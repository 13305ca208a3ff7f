"""What each part of a model's run was worth so far: whole runs against runs of the same problems without it.

Both are compared at the same number of judged kernels, since some have come further than others. Pairs whose kernels
are all the same up to there say nothing, and are left out.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import NamedTuple

from egg_graph.bench.statistics import Interval
from egg_graph.bench.writing import markdown_table
from egg_graph.schema import USABLE, Value
from tests.lab.kept_evaluations import judged_calls, kept_evaluation
from tests.lab.model_runs import ModelRuns, PlannedRun
from tests.lab.model_runs_parts import gain_of


class JudgedKernel(NamedTuple):
    """A kernel of the model, or of a sweep, in the order in which they were judged."""

    candidate: str
    best: float
    """Highest ratio of a right kernel up to here, attempt 0 included; at least 1.0, for PyTorch would be kept."""


class PartSoFar(Value):
    """Whole runs against runs without one part, at the same number of judged kernels."""

    part: str
    problems: tuple[str, ...]
    kernels: tuple[int, ...]
    """After how many judged kernels each problem is compared."""
    whole: tuple[float, ...]
    """Best ratio of the whole run of each problem."""
    without: tuple[float, ...]
    gain: Interval
    """Geometric mean of the one over the other."""
    better: int
    """Problems with a faster kernel with the part, by more than 1 %."""
    worse: int


def course_of(folder: Path | None) -> list[JudgedKernel]:
    """The kernels that a run has judged; empty where there is no run."""
    if folder is None:
        return []
    course: list[JudgedKernel] = []
    best = 1.0
    for call in judged_calls(folder):
        kept = kept_evaluation(folder, call.candidate) if call.status in USABLE else None
        if kept is not None and kept.timing is not None:
            best = max(best, kept.timing.ratio)
        if call.attempt:
            course.append(JudgedKernel(call.candidate, best))
    return course


def parts_so_far(runs: ModelRuns) -> tuple[PartSoFar, ...]:
    """One line for every part that some run went without, as far as there are pairs."""
    found = (_part(runs, part) for part in runs.terms.without)
    return tuple(part for part in found if part is not None)


def _part(runs: ModelRuns, part: str) -> PartSoFar | None:
    pairs: dict[str, tuple[JudgedKernel, JudgedKernel, int]] = {}
    for problem in runs.terms.references:
        whole = course_of(runs.run_folder(PlannedRun(problem, "model")))
        other = course_of(runs.run_folder(PlannedRun(problem, "model", part)))
        count = min(len(whole), len(other))
        if [one.candidate for one in whole[:count]] != [one.candidate for one in other[:count]]:
            pairs[problem] = (whole[count - 1], other[count - 1], count)
    if not pairs:
        return None
    gain = gain_of([(one.best, other.best) for one, other, _ in pairs.values()])
    return PartSoFar(
        part=part,
        problems=tuple(pairs),
        kernels=tuple(count for *_, count in pairs.values()),
        whole=tuple(one.best for one, *_ in pairs.values()),
        without=tuple(other.best for _, other, _ in pairs.values()),
        gain=gain.mean,
        better=gain.better,
        worse=gain.worse,
    )


def parts_section(parts: Sequence[PartSoFar]) -> list[str]:
    """The parts as lines of a page; nothing where there are none."""
    if not parts:
        return []
    head = ["without", "pairs", "kernels", "with it", "without it", "gain", "95 % interval", "better, worse"]
    table = [
        [
            one.part,
            str(len(one.problems)),
            f"{min(one.kernels)} to {max(one.kernels)}",
            f"{geometric_mean(one.whole):.3f}",
            f"{geometric_mean(one.without):.3f}",
            f"{one.gain.value:.3f}",
            f"{one.gain.low:.3f} to {one.gain.high:.3f}",
            f"{one.better}, {one.worse}",
        ]
        for one in parts
    ]
    return [
        "",
        "## Without a part",
        "",
        "Whole runs against runs of the same problems without a part, at the same number of judged kernels: geometric "
        "means of the best ratio so far (what is not right, or slower than PyTorch, is 1.0) and of their quotient; "
        "problems better and worse with the part by more than 1 %. Runs that ask the same, but for what is left of "
        "their budgets, got the same answer.",
        "",
        *markdown_table(head, table),
    ]
