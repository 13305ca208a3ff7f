"""The roles of a team, what each answers, and what an answer cost."""

import math
from typing import Literal, get_args

from pydantic import Field

from egg_graph.schema.base import Value, is_empty
from egg_graph.schema.candidate import Candidate, Knob, StageName
from egg_graph.schema.evaluation import USABLE, Evaluation, Status, Trial

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
    """Requests to a model, those that failed included."""
    failed: int = 0
    """Requests that brought no answer."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Part of `input_tokens` that the provider had in its prompt cache."""
    estimated: int = 0
    """Requests of which nobody told the tokens; theirs are estimated from the texts."""
    dollars: float = 0.0
    """Price of the requests whose price is known [USD]."""
    unpriced: int = 0
    """Requests whose price is not known."""
    seconds: float = 0.0
    """Time until the answer [s]."""

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        theirs = vars(other)
        return Usage(**{name: mine + theirs[name] for name, mine in vars(self).items()})


class Expectation(Value):
    """The effect that an analyst predicts. It is compared with what was measured."""

    metric: str
    """`milliseconds`, `bound_ms`, `launches`, `dram_bytes`, `occupancy`, `registers`, or an Nsight Compute metric."""
    direction: Literal["down", "up"]


class RoleAnswer(Value):
    """What every role's answer tells beside what it says."""

    mended: tuple[str, ...] = ()
    """What was mended in the answer so that it could be read, one line each."""
    unusable: str = ""
    """Why the model gave no usable answer, so that this one stands in for it; empty where it gave one."""
    withheld: str = ""
    """The budget that forbade asking the model again for a usable answer; empty where none did."""


class Analysis(RoleAnswer):
    """The analyst's answer (paper, App. E.3)."""

    worth_optimizing: bool
    bottleneck: str
    root_cause: str = ""
    category: Category = "none"
    plan: str = ""
    by: Literal["rewrite", "sweep", "config"] = "rewrite"
    """`rewrite`: a coder follows the plan. `sweep`: the source stays, and the tuner turns the knobs that it has.
    `config`: the tuner writes the values of `config` into the source, and no coder is asked."""
    config: dict[str, Knob] = {}
    """By `config`: the new value of each knob that changes; the others keep theirs."""
    expected: Expectation | None = None
    principles: tuple[str, ...] = ()
    """Ids of the principles that led to the plan."""
    alternatives: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """Further plans, each whole by itself, for coders who draft side by side: the second takes the first of these."""
    usage: Usage = Usage()

    def for_draft(self, number: int) -> "Analysis":
        """The analysis whose plan a draft carries out, by its number from 1: each its own plan, as far as they go."""
        if not 1 < number <= len(self.alternatives) + 1:
            return self.model_copy(update={"alternatives": ()})
        plan = self.alternatives[number - 2]
        return self.model_copy(update={"plan": plan, "alternatives": (), "expected": None, "principles": ()})


class Diagnosis(RoleAnswer):
    """The debugger's answer (paper, App. E.5); each text at most 30 words."""

    critical_issue: str
    modification_plan: str
    usage: Usage = Usage()


class Draft(RoleAnswer):
    """The coder's answer: a module's source, or why there is none."""

    source: str = ""
    problem: str = ""
    """Why there is no usable source; empty where there is one."""
    note: str = ""
    """How an expert wrote it."""
    declined: str = ""
    """Why nothing is written: the plan is not carried out, or there is no kernel to be had. Empty where something is.
    No attempt is made, and the kernel, if there is one, stays as it is."""
    author: str = ""
    """Who wrote it, where several models play the coder; empty for the team by its name."""
    usage: Usage = Usage()


class Effect(Value):
    """A predicted effect, and what was measured."""

    expected: Expectation
    before: float | None = None
    """Value of the metric for the best kernel before, in the metric's unit; None where it was not measured."""
    after: float | None = None
    """Value of the metric for the new kernel; None where it was not measured."""
    held: bool | None = None
    """Whether the metric moved in the predicted direction; None where it was not measured twice."""


class Attempt(Value):
    """One step of a stage: an analysis or a diagnosis, the candidate that answers it, and its evaluation."""

    number: int
    """Number of the attempt in the whole run, from 1; 0 is the contender, which cost the team nothing."""
    candidate: Candidate
    evaluation: Evaluation
    analysis: Analysis | None = None
    diagnosis: Diagnosis | None = None
    """The diagnosis that this attempt follows, in repair mode."""
    improved: bool = False
    """Whether the kernel is better, and no less proven, than the best one before it."""
    undecided: bool = False
    """Whether the kernel is right, and no clock told if it is better or worse than the best one before it."""
    repeats: int | None = None
    """Number of the attempt that judged the same program: sources that differ in comments, docstrings and formatting
    alone are judged once. None where it was judged itself."""
    beside: int | None = Field(default=None, exclude_if=is_empty)
    """Number of the first of the attempts that were drafted side by side with this one, the last of which is the one
    that the stage went on with; None where it was drafted alone."""
    effect: Effect | None = None
    usage: Usage = Usage()
    """Cost of the answers that led to this attempt."""

    @property
    def leads_its_drafts(self) -> bool:
        """True where it was drafted alone, or is the first of those drafted side by side: these are one plan."""
        return self.beside in (None, self.number)


Outcome = Literal[
    "improved",
    "kept",
    "not_worth_optimizing",
    "no_kernel",
    "budget_exhausted",
    "all_failed",
    "unevaluable",
    "skipped",
    "at_the_floor",
    "not_worth_its_price",
]
"""`no_kernel`: the team has none for this reference, and `StageSummary.left` says why. `skipped`: hardware tuning that
nothing could show to pay, because nothing is timed. `at_the_floor`: the kernel takes hardly longer than the task's
floor, so that no further optimization was planned. `not_worth_its_price`: no plan could save enough per dollar."""


class StageSummary(Value):
    """One finished stage, as the later stages see it: the INTER-stage context."""

    stage: StageName
    outcome: Outcome
    attempts: int = 0
    """Count of attempts."""
    tried: tuple[str, ...] = ()
    """Each plan: the attempts at it, by number, its mode and how often its kernel was repaired."""
    paid: tuple[str, ...] = ()
    """The plans that led to a better kernel, each with what was measured before and after."""
    failed: tuple[str, ...] = ()
    """The plans that did not, each with status and reason of its last attempt."""
    undecided: tuple[str, ...] = ()
    """The plans whose kernel is right and was neither better nor worse, because nothing was timed."""
    left: str = ""
    """What the last analysis named as left to do."""
    best: str | None = None
    """`Candidate.id` of the best kernel when the stage ended."""
    cut_short: str = ""
    """The budget that ended the stage before its roles and its tuner had finished; empty where they had."""
    best_status: Status | None = None
    usage: Usage = Usage()


class Sweep(Value):
    """What the tuner of one stage tried: no model was asked."""

    stage: StageName
    kernel: str
    """`Candidate.id` of the kernel whose knobs were turned."""
    knobs: dict[str, tuple[Knob, ...]]
    """The values that each turned knob could take, the kernel's own first."""
    trials: tuple[Trial, ...]
    """One for each configuration tried, in order; the kernel's own configuration comes first."""
    winner: dict[str, Knob] | None = None
    """The best configuration; None where none was usable. It is judged, unless all knobs were swept together and it
    gained no more than the noise."""

    @property
    def possible(self) -> int:
        """Count of all configurations that the values span."""
        return math.prod(len(values) for values in self.knobs.values())

    @property
    def usable(self) -> tuple[Trial, ...]:
        """The usable trials, the best first; of equal ones the one tried first."""
        return tuple(sorted((t for t in self.trials if t.status in USABLE), key=lambda trial: trial.merit))

    @property
    def failed(self) -> tuple[Trial, ...]:
        """The trials that are not usable, in order."""
        return tuple(t for t in self.trials if t.status not in USABLE)


class Sign(Value):
    """What a measured metric shows where a principle applies. A limit that is None does not count."""

    metric: str
    """A name that `Expectation.metric` may have, `spill_bytes` or `shared_bytes`."""
    above: float | None = None
    below: float | None = None

    def shown_by(self, value: float) -> bool:
        """Return whether a measured value is within the limits, which themselves lie outside."""
        return (self.above is None or value > self.above) and (self.below is None or value < self.below)


class Principle(Value):
    """One expert rule: when it applies, what to do, what it should change."""

    id: str
    title: str
    stages: tuple[StageName, ...]
    when: str
    """When the rule applies, in words that an agent can judge."""
    do: str
    """What to do."""
    changes: Expectation
    """The effect that it should have."""
    operators: tuple[str, ...] = Field(default=())
    """Prefixes of the ATen operators that the rule is about; empty means any."""
    structures: tuple[str, ...] = ()
    """Structures of operators that the rule is about (`egg_graph.knowledge.STRUCTURES`); empty means any."""
    signs: tuple[Sign, ...] = ()
    """Measurements of which one at least shows that the rule applies; empty means that none is needed."""
    vendors: tuple[str, ...] = ()
    """Vendors that the rule is for (`Hardware.vendor`); empty means any."""
    architectures: tuple[str, ...] = ()
    """Compilation targets that the rule is for (`Hardware.arch`); empty means any."""
    precisions: tuple[str, ...] = ()
    """Precision policies that the rule is for; empty means any."""
    evidence: str = ""
    """What the rule was measured to be worth, on which GPU, and the source."""
