"""What `times` measures: a row for each problem, and the figures that follow from it."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Literal

from egg_graph.bench.provenance import Provenance
from egg_graph.schema import CallEntry, CallKind, Precision, Value
from egg_graph.schema.evaluation import USABLE
from egg_graph.schema.spending import Part
from tests.lab.cost import KernelBenchCost

WAITING = 0.5
"""Seconds of waiting in one call from which a row tells them."""
What = Literal["again", "warm", "wrong", "profiling_baseline", "profiled"]
"""`again`: the run's first right kernel, once the run has ended; its finalist has freed what the judge held, which is
made anew. `warm`: the same kernel once more. `wrong`: the same kernel made wrong. `profiling_baseline`, `profiled`: a
baseline and the kernel by a second evaluator, which takes profiles."""


class SingleCall(Value):
    """One call of the evaluator behind the run."""

    what: What
    seconds: float
    """Wall time [s]."""
    status: str = ""
    reason: str = ""
    parts: dict[Part, float] = {}
    """Where the time went, as the evaluator tells it [s]."""
    profile: str = ""
    """Where an evaluation's metrics come from: `ncu`, `cupti`, `compiled` or `none`."""


class TimesRow(Value):
    """One problem."""

    problem: str
    seconds: float | None = None
    """Wall time of the whole run [s]; None where it failed."""
    status: str = ""
    """How the run ended."""
    ratio: float | None = None
    """Speedup of the kernel that the run hands over; None where there is none."""
    ledger: tuple[CallEntry, ...] = ()
    """Every call of the run, in order."""
    screened: tuple[int, ...] = ()
    """Configurations of each sweep of the ledger, in order."""
    kernel: str = ""
    """Source of the run's first right kernel; empty where there is none."""
    calls: tuple[SingleCall, ...] = ()
    """What was asked behind the run."""
    peak_bytes: int | None = None
    """Most memory in use on the GPU by all processes, KernelBench's apart; None where nothing tells it."""
    kernelbench: KernelBenchCost | None = None
    """KernelBench's evaluation of the same kernel; None where it was not asked."""
    failed: str = ""
    """Why the row is not complete; empty where nothing failed."""

    def calls_of(self, kind: CallKind) -> tuple[CallEntry, ...]:
        """The run's calls of one kind that were answered."""
        return tuple(call for call in self.ledger if call.call == kind and call.status not in ("failed", "pending"))

    def single(self, what: What) -> SingleCall | None:
        """The last call of one kind behind the run; None if there was none."""
        return next((call for call in reversed(self.calls) if call.what == what), None)

    @property
    def baseline(self) -> CallEntry | None:
        """The call that started the judge and measured the reference."""
        return next(iter(self.calls_of("baseline")), None)

    @property
    def first(self) -> CallEntry | None:
        """The run's first evaluation."""
        return next(iter(self.calls_of("evaluation")), None)

    @property
    def finalist(self) -> CallEntry | None:
        """The first finalist that was found right; one that is refused is sooner done."""
        return next((call for call in self.calls_of("finalist") if call.status in USABLE), None)

    @property
    def cold_seconds(self) -> float | None:
        """From the begin of the baseline to the end of the first evaluation, less the coder's time between them [s]."""
        begun = next((call.begin for call in self.ledger if call.call == "baseline"), None)
        if begun is None or self.first is None:
            return None
        coder = sum(c.seconds for c in self.ledger if c.call == "coder" and begun <= c.begin < self.first.begin)
        return (self.first.end - begun).total_seconds() - coder

    @property
    def sweeps(self) -> tuple[tuple[int, float], ...]:
        """Configurations and seconds of each sweep that was answered."""
        sweeps = [call for call in self.ledger if call.call == "sweep"]
        answered = self.calls_of("sweep")
        return tuple((n, call.seconds) for n, call in zip(self.screened, sweeps, strict=False) if call in answered)

    @property
    def configuration_seconds(self) -> float | None:
        """Seconds of all sweeps over their configurations [s]."""
        configurations = sum(count for count, _ in self.sweeps)
        return sum(seconds for _, seconds in self.sweeps) / configurations if configurations else None

    @property
    def warm_seconds(self) -> float | None:
        """A warm evaluation of the right kernel [s]; None where it was not found right again."""
        warm = self.single("warm")
        return warm.seconds if warm is not None and warm.status in USABLE else None

    @property
    def profile_seconds(self) -> float | None:
        """What the profile took in the evaluation by the profiling evaluator [s]; None where none was taken."""
        profiled = self.single("profiled")
        if profiled is None or profiled.profile not in ("ncu", "cupti"):
            return None
        return profiled.parts.get("profile")

    @property
    def warm_with_profile_seconds(self) -> float | None:
        """A warm evaluation, and what a profile adds to one [s]."""
        if self.warm_seconds is None or self.profile_seconds is None:
            return None
        return self.warm_seconds + self.profile_seconds

    @property
    def wrong_seconds(self) -> float | None:
        """Until the wrong kernel was refused for its answers [s]; None where it was not, or for another reason."""
        wrong = self.single("wrong")
        return wrong.seconds if wrong is not None and wrong.status == "incorrect" else None

    @property
    def kernelbench_seconds(self) -> float | None:
        """KernelBench's warm evaluation, median [s]; None where it calls the kernel wrong: it times no such kernel."""
        theirs = self.kernelbench
        return median(theirs.warm_seconds) if theirs is not None and theirs.correct and theirs.warm_seconds else None

    @property
    def over_kernelbench(self) -> float | None:
        """Our warm seconds over theirs."""
        theirs = self.kernelbench_seconds
        return self.warm_seconds / theirs if theirs and self.warm_seconds is not None else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the row's numbers."""
        told = [self.failed] if self.failed else []
        told += [f"{c.call} failed: {c.reason}" for c in self.ledger if c.status == "failed"]
        waits = [(c.call, c.parts) for c in self.ledger] + [(c.what, c.parts) for c in self.calls]
        told += [
            f"{name} waited {parts['waiting']:.1f} s" for name, parts in waits if parts.get("waiting", 0) > WAITING
        ]
        if (first := self.first) is not None and first.status not in USABLE:
            told.append(f"first verdict {first.status}")
        if (warm := self.single("warm")) is not None and warm.status not in USABLE:
            told.append(f"right in the run, then {warm.status}: {warm.reason[:200]}")
        return (*told, *self._about_the_wrong_kernel(), *self._about_kernelbench())

    def _about_the_wrong_kernel(self) -> tuple[str, ...]:
        tries = [call for call in self.calls if call.what == "wrong"]
        if not tries:
            return ("no store to make wrong",) if self.single("warm") is not None and not self.failed else ()
        accepted = sum(call.status in USABLE for call in tries)
        told = [f"still right with {accepted} of its stores changed"] if accepted else []
        if tries[-1].status not in (*USABLE, "incorrect"):
            told.append(f"the wrong kernel is {tries[-1].status}: {tries[-1].reason[:200]}")
        return tuple(told)

    def _about_kernelbench(self) -> tuple[str, ...]:
        theirs = self.kernelbench
        if theirs is None:
            return ()
        if theirs.not_measured:
            return (f"KernelBench: {theirs.not_measured}",)
        return () if theirs.correct else ("KernelBench calls the kernel wrong, and does not time it",)


class TimesResults(Value):
    """Problems timed."""

    terms: Provenance
    precision: Precision
    asked: int
    gpus: int = 1
    """References at work at once, each on a GPU of its own."""
    profile: bool = False
    """Whether finalists are profiled, as they are in a user's run."""
    rows: tuple[TimesRow, ...] = ()
    before: str = ""
    """The terms of the earlier results that these are compared with; empty for none."""
    figures_before: dict[str, dict[str, float]] = {}
    """Their figures, by problem and name."""


@dataclass(frozen=True)
class Figure:
    """One line of the table of figures."""

    words: str
    floor: float | None
    """What the median may be at most; None where nothing is asked."""
    of: Callable[[TimesRow], float | None]
    worst: float | None = None
    """What no problem may exceed; None where nothing is asked."""

    def told(self, values: list[float]) -> str:
        """Whether the floor holds."""
        if not values:
            return "not measured"
        if self.floor is None:
            return "-"
        return "holds" if median(values) <= self.floor and max(values) <= (self.worst or max(values)) else "does not"


def seconds_of(call: CallEntry | None) -> float | None:
    """Wall time of a call, if there was one [s]."""
    return None if call is None else call.seconds


FIGURES = {
    "cold": Figure("cold start to first verdict", 12.0, lambda row: row.cold_seconds),
    "baseline": Figure("baseline, start of the judge included", 8.0, lambda row: seconds_of(row.baseline)),
    "warm": Figure("warm evaluation of a right kernel", 3.0, lambda row: row.warm_seconds),
    "warm_with_profile": Figure("the same with its profile", 6.0, lambda row: row.warm_with_profile_seconds),
    "wrong": Figure("a wrong kernel refused", 1.0, lambda row: row.wrong_seconds),
    "finalist": Figure("finalist", 20.0, lambda row: seconds_of(row.finalist)),
    "configuration": Figure("sweep, a configuration", 0.5, lambda row: row.configuration_seconds),
    "whole": Figure("whole run, none over 120 s", 40.0, lambda row: row.seconds, worst=120.0),
    "over_kernelbench": Figure(
        "warm evaluation over KernelBench's warm (ratio)", 3.0, lambda row: row.over_kernelbench
    ),
}
"""By name, in the order of the page."""


def figures_of(row: TimesRow) -> dict[str, float]:
    """The figures that a row has, by name."""
    values = {name: figure.of(row) for name, figure in FIGURES.items()}
    return {name: value for name, value in values.items() if value is not None}
