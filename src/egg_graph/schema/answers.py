"""The roles of a team, what each answers, and what an answer cost."""

from typing import Literal, get_args

from pydantic import Field

from egg_graph.schema.base import Value
from egg_graph.schema.candidate import Candidate, StageName
from egg_graph.schema.evaluation import Evaluation, Status

Role = Literal["analyst", "coder", "debugger"]
ROLES: tuple[Role, ...] = get_args(Role)

Category = Literal[
    "operator_fusion",
    "algorithm_replacement",
    "parallel_mapping",
    "tensor_tiling",
    "memory_access",
    "precision",
    "launch_overhead",
    "none",
]


class Usage(Value):
    """What an answer cost."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            seconds=self.seconds + other.seconds,
        )


class Expectation(Value):
    """The effect an analyst predicts, so that it can be held against what was measured."""

    metric: str
    """`milliseconds`, `bound_ms`, `launches`, `dram_bytes`, `occupancy`, `registers`, or an Nsight metric's name."""
    direction: Literal["down", "up"]


class Analysis(Value):
    """The analyst's answer (paper, App. E.3)."""

    worth_optimizing: bool
    bottleneck: str
    root_cause: str = ""
    category: Category = "none"
    plan: str = ""
    by: Literal["rewrite", "sweep"] = "rewrite"
    """`rewrite`: a coder follows the plan. `sweep`: the source stays, the tuner turns the knobs it already has."""
    expected: Expectation | None = None
    principles: tuple[str, ...] = ()
    """Ids of the principles that led to the plan."""
    usage: Usage = Usage()


class Diagnosis(Value):
    """The debugger's answer (paper, App. E.5); each text at most 30 words."""

    critical_issue: str
    modification_plan: str
    usage: Usage = Usage()


class Draft(Value):
    """The coder's answer: a module's source, or why there is none."""

    source: str = ""
    problem: str = ""
    note: str = ""
    usage: Usage = Usage()


class Effect(Value):
    """Predicted against measured."""

    expected: Expectation
    before: float | None = None
    after: float | None = None
    held: bool | None = None
    """None where the metric could not be measured."""


class Attempt(Value):
    """Analysis or diagnosis -> candidate -> evaluation."""

    number: int
    """Counts through the whole run, from 1."""
    candidate: Candidate
    evaluation: Evaluation
    analysis: Analysis | None = None
    diagnosis: Diagnosis | None = None
    """The diagnosis that this attempt answers (repair mode)."""
    improved: bool = False
    """Better, and no less proven, than the best kernel before it."""
    effect: Effect | None = None
    usage: Usage = Usage()


Outcome = Literal["improved", "kept", "not_worth_optimizing", "budget_exhausted", "all_failed", "unevaluable"]


class StageSummary(Value):
    """One finished stage, as the next ones see it: the INTER-stage context."""

    stage: StageName
    outcome: Outcome
    attempts: int = 0
    tried: tuple[str, ...] = ()
    paid: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    """Plan or mode, status and reason of each dead end."""
    left: str = ""
    """What the last analysis still saw to do."""
    best: str | None = None
    best_status: Status | None = None
    usage: Usage = Usage()


class Principle(Value):
    """One expert rule: when it applies, what to do, what it should change."""

    id: str
    title: str
    stages: tuple[StageName, ...]
    when: str
    """In words, for an agent to judge."""
    do: str
    changes: Expectation
    operators: tuple[str, ...] = Field(default=())
    """ATen operator prefixes it is about; empty means any."""
    vendors: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ()
    evidence: str = ""
    """What it was measured to be worth, where, and the source."""
