"""Where the wall time of one answer of an evaluator went, and the GPU memory that it took."""

from typing import Literal, get_args

from pydantic import Field

from egg_graph.schema.base import Value

Part = Literal[
    "model",
    "team",
    "capture",
    "start",
    "compile",
    "correctness",
    "timing",
    "profile",
    "sanitizer",
    "waiting",
    "failed",
    "other",
]
PART_WORDS: dict[Part, str] = {
    "model": "model",
    "team": "team without a model",
    "capture": "capture",
    "start": "start of processes",
    "compile": "compile",
    "correctness": "correctness",
    "timing": "timing",
    "profile": "profile",
    "sanitizer": "sanitizer",
    "waiting": "waiting for the judge",
    "failed": "calls that failed",
    "other": "other",
}
"""The rows of a ledger, in their order: what each part is called."""
LEAST_SHOWN = 0.05
"""Seconds below which a part of the time is not shown: it would read 0.0."""
PARTS: tuple[Part, ...] = get_args(Part)


class Memory(Value):
    """Peak GPU memory of the processes that judge. None where it was not measured."""

    judge_bytes: float | None = None
    """What PyTorch's allocator held in the judge's process, the baseline included [byte]."""
    candidate_bytes: float | None = None
    """What the candidate's process took, as seen from outside it, its context included [byte]."""
    baseline_bytes: float | None = None
    """What the baseline's forwards allocated beyond what the judge held before [byte]."""

    def __or__(self, other: "Memory") -> "Memory":
        """The larger one of each."""
        theirs = vars(other)
        return Memory(**{n: max(filter(None, (mine, theirs[n])), default=None) for n, mine in vars(self).items()})


class Spending(Value):
    """Where the wall time of one answer of an evaluator went, and its peak memory."""

    seconds: dict[Part, float] = Field(default_factory=dict)
    """Wall time [s] by part; of work side by side each part has its share."""
    memory: Memory = Memory()

    def __add__(self, other: "Spending") -> "Spending":
        parts = {p: self.seconds.get(p, 0.0) + other.seconds.get(p, 0.0) for p in (*self.seconds, *other.seconds)}
        return Spending(seconds=parts, memory=self.memory | other.memory)

    def shared_by(self, count: int) -> "Spending":
        """The part of one of `count` that did this side by side."""
        return Spending(seconds={part: took / count for part, took in self.seconds.items()}, memory=self.memory)
