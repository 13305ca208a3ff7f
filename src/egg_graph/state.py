"""What travels through the graph: the run's input, its output, and the states of graph and stage.

The parent's state is the INTER-stage context (paper, section on stage-aware collaboration): the best kernel so far with
its evidence, every attempt, and one summary per finished stage. A stage's own keys are the INTRA-stage context.
Every pydantic type is reachable from an annotation, so that a strict checkpoint loads what it saved.
"""

from typing import Annotated, Literal, NotRequired, Required

from typing_extensions import TypedDict

from egg_graph.schema import (
    Analysis,
    Attempt,
    Baseline,
    Candidate,
    Diagnosis,
    Evaluation,
    KernelTask,
    Mode,
    Profile,
    StageSummary,
    Status,
    Usage,
)

RunStatus = Status | Literal["reference_kept"]
"""How a run ended: the status of the kernel it hands over; `unevaluable` where the reference itself cannot be judged;
`reference_kept` where no attempt was usable."""


def merge_attempts(left: list[Attempt], right: list[Attempt]) -> list[Attempt]:
    """Union by attempt number, later writer wins.

    A stage returns the whole list it was given and its own attempts; a plain `operator.add` would count them twice.
    """
    return [attempt for _, attempt in sorted({a.number: a for a in [*left, *right]}.items())]


def merge_summaries(left: list[StageSummary], right: list[StageSummary]) -> list[StageSummary]:
    """Union by stage, in the order in which the stages ended."""
    return list({summary.stage: summary for summary in [*left, *right]}.values())


class InputState(TypedDict):
    """What a run is given."""

    reference: Required[str]
    """Source text of a PyTorch module in KernelBench's form, or the path of a .py file that holds it."""
    name: NotRequired[str]
    """What to call the task; the file's name if left out."""


class OutputState(TypedDict, total=False):
    """All that a run establishes. Wide on purpose: servers stream the updates of output keys alone."""

    status: RunStatus
    verdict: str
    """What was proven and what was not, for a person."""
    kernel: str
    """Source of the best kernel so far; empty while there is none."""
    task: KernelTask
    baseline: Baseline
    best: Candidate | None
    evaluation: Evaluation | None
    """Of `best`."""
    candidate: Candidate | None
    """The draft in work."""
    profile: Profile
    """Of the candidate last evaluated; of `best` when the run has ended."""
    analysis: Analysis | None
    diagnosis: Diagnosis | None
    attempts: Annotated[list[Attempt], merge_attempts]
    """The whole history, in order."""
    summaries: Annotated[list[StageSummary], merge_summaries]
    usage: Usage
    """Of all model calls of the run."""
    seconds: float
    """Spent inside the nodes; a pause between two of them (an interrupt, a kill and a resume) costs nothing."""


class State(InputState, OutputState):
    """The state of the whole graph."""


class StageState(OutputState, total=False):
    """The state of one stage: the shared keys, and what no other stage sees."""

    mode: Mode | None
    """The mode in which the coder writes next; None until a role has acted."""
    pending: Usage
    """Cost of the answers that have led to no attempt yet."""
