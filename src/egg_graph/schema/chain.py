"""The history of a run as chains: a plan, the repairs of its kernel, and what was measured at the end."""

from typing import Literal

from egg_graph.schema.answers import Category, Effect
from egg_graph.schema.base import Value
from egg_graph.schema.candidate import Mode, StageName
from egg_graph.schema.evaluation import Status

ChainOutcome = Literal["improved", "undecided", "less_proven", "no_better", "broken", "passed_over"]
"""`improved`: the last kernel became the best one. `undecided`: it is right, and no clock told whether it is better.
`less_proven`: it is right and better, and did not pass every check that the best one passed. `no_better`: it is right
and no better. `broken`: it is not right. `passed_over`: it is one of several drafts of one
plan that were written side by side, and another one went on."""


class Step(Value):
    """One attempt of a chain."""

    attempt: int
    """`Attempt.number`"""
    change: str = ""
    """What it was to change: the plan of the first attempt, of each later one what the repair was to mend."""
    status: Status
    failure: str = ""
    """What is wrong with its kernel, in one line; empty where nothing is."""
    same_as: int | None = None
    """The first attempt of the stage that failed in the same way (see `fingerprint`); None where this one is it."""
    repeats: int | None = None
    """Earlier attempt that judged the same program; None where it was judged itself."""
    times: int = 0
    """How many of the steps that are told had failed in this way by then, this one included."""


class Delta(Value):
    """What became of one measured quantity, against the best kernel before the chain."""

    metric: str
    """A name that `Expectation.metric` may have, `spill_bytes` or `shared_bytes`."""
    before: float
    after: float

    @property
    def percent(self) -> float | None:
        """Relative change [percent]; None where it was 0 before."""
        return None if self.before == 0 else 100 * (self.after / self.before - 1)


class Chain(Value):
    """One idea from its plan to its outcome: a first attempt, and the repairs of its kernel."""

    stage: StageName
    mode: Mode
    """Mode of the first attempt."""
    category: Category = "none"
    steps: tuple[Step, ...]
    """The attempts, in order; of a long chain the first one and the last ones."""
    attempts: int
    """How many attempts there were in all."""
    outcome: ChainOutcome
    lost: tuple[str, ...] = ()
    """Checks that the best kernel before it passed, and its last kernel did not."""
    deltas: tuple[Delta, ...] = ()
    """What the last kernel changed; empty where it is not right, or nothing was measured twice."""
    effect: Effect | None = None
    """The predicted effect, and what was measured for the last kernel."""
    best: bool = False
    """Whether the last kernel is the best one of the run."""

    @property
    def plan(self) -> str:
        """What the chain was to achieve."""
        return self.steps[0].change

    @property
    def numbers(self) -> str:
        """The attempts by number, in words: `attempt 4`, `attempts 4, 5`, `99 attempts from 4 to 102`."""
        numbers = [str(step.attempt) for step in self.steps]
        if self.attempts > len(numbers):
            return f"{self.attempts} attempts from {numbers[0]} to {numbers[-1]}"
        return f"attempt{'s' * (len(numbers) > 1)} {', '.join(numbers)}"
