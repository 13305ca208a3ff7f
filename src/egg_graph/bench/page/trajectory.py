"""What a run tried, as the page shows it: each attempt with its time, its kernel, and the difference to its parent."""

import difflib
from pathlib import Path
from typing import NamedTuple

from egg_graph.bench.values import Row
from egg_graph.report import SavedRun, read_run
from egg_graph.report.highlighting import comparable
from egg_graph.schema import Attempt, BadInput


class Step(NamedTuple):
    """One attempt."""

    number: int
    stage: str
    mode: str
    status: str
    milliseconds: float | None
    """Time, or None where it was not timed."""
    ratio: float | None
    better: bool
    """Whether it became the best kernel."""
    plan: str
    reason: str
    source: str
    """The kernel's text, where there is no earlier one to compare it with; else empty."""
    diff: tuple[tuple[str, str], ...]
    """Lines of the difference to its parent, each with its kind: `add`, `cut`, `at` or empty."""


class Trajectory(NamedTuple):
    """What a run tried and what it ended with."""

    steps: tuple[Step, ...] = ()
    kernel: str = ""
    """The kernel that was handed over; empty if there is none."""
    missing: str = ""
    """Why nothing is shown."""


class Trajectories:
    """What the runs of a bench tried, each read once: a run that has its row changes no more.

    Args:
        runs_dir: the folder with the runs' folders.
    """

    def __init__(self, runs_dir: Path) -> None:
        self.runs_dir = runs_dir
        self._read: dict[str, Trajectory] = {}

    def of(self, row: Row) -> Trajectory:
        """What a row's run tried."""
        if not row.run:
            return Trajectory(missing="No run was made.")
        if row.run not in self._read:
            try:
                run = read_run(self.runs_dir / row.run)
            except BadInput as error:
                return Trajectory(missing=f"Not shown: {error}")
            self._read[row.run] = Trajectory(_steps(run), run.best.source if run.best is not None else "")
        return self._read[row.run]


def _steps(run: SavedRun) -> tuple[Step, ...]:
    sources: dict[str, str] = {}
    steps, last = [], ""
    for attempt in run.attempts:
        candidate = attempt.candidate
        before = sources.get(candidate.parent or "", last)
        steps.append(_step(attempt, before))
        sources[candidate.id] = last = candidate.source
    return tuple(steps)


def _step(attempt: Attempt, before: str) -> Step:
    candidate, evaluation = attempt.candidate, attempt.evaluation
    timing = evaluation.timing
    return Step(
        number=attempt.number,
        stage=candidate.stage.replace("_", " "),
        mode=candidate.mode,
        status=evaluation.status,
        milliseconds=timing.candidate_ms if timing and evaluation.usable else None,
        ratio=timing.ratio if timing and evaluation.usable else None,
        better=attempt.improved,
        plan=candidate.plan,
        reason=evaluation.reason,
        source="" if before else candidate.source,
        diff=compare(before, candidate.source) if before else (),
    )


def compare(before: str, after: str) -> tuple[tuple[str, str], ...]:
    """Lines of the unified difference of two texts, each with its kind: `add`, `cut`, `at` (a place) or empty."""
    if not comparable(before, after):
        return (("too long to be compared", ""),)
    kinds = {"+": "add", "-": "cut", "@": "at"}
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3))[2:]
    return tuple((line, kinds.get(line[:1], "")) for line in lines)
