"""What travels through the graph: the run's input, its output, and the states of graph and stage.

The parent's state is the INTER-stage context (paper, section on stage-aware collaboration): the best kernel so far with
its evidence, every attempt, and one summary per finished stage. A stage's own keys are the INTRA-stage context.
A strict checkpoint loads only the pydantic types that these annotations name.
"""

from typing import Annotated, Any, Literal, NotRequired, Required

from typing_extensions import TypedDict

from egg_graph.arguments import ReferenceText, TaskName
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
"""How a run ended: the status of the kernel that it hands over, `unevaluable` where the reference itself cannot be
judged, or `reference_kept` where no attempt was usable."""


def merge_attempts(left: list[Attempt], right: list[Attempt]) -> list[Attempt]:
    """Union by attempt number; of two attempts with one number, the right one stays.

    A stage returns the whole list that it was given, with its own attempts added; `operator.add` would count the
    earlier ones twice.
    """
    return [attempt for _, attempt in sorted({a.number: a for a in [*left, *right]}.items())]


def merge_summaries(left: list[StageSummary], right: list[StageSummary]) -> list[StageSummary]:
    """Union by stage, in the order in which the stages ended."""
    return list({summary.stage: summary for summary in [*left, *right]}.values())


class InputState(TypedDict):
    """What a run is given."""

    reference: Required[ReferenceText]
    name: NotRequired[TaskName]


class OutputState(TypedDict, total=False):
    """All that a run establishes. It holds almost every key: servers stream updates of output keys alone."""

    status: RunStatus
    verdict: str
    """What was proven and what was not, for a person."""
    kernel: str
    """Source of the best kernel so far; empty while there is none."""
    knobs: dict[str, Any]
    """The knobs with which the run was started, as JSON values; a resume without a context of its own uses them."""
    task: KernelTask
    baseline: Baseline
    best: Candidate | None
    evaluation: Evaluation | None
    """Evaluation of `best`."""
    candidate: Candidate | None
    """The candidate that is evaluated next, or was evaluated last."""
    profile: Profile
    """Profile of the candidate evaluated last; when the run has ended, profile of `best`."""
    analysis: Analysis | None
    diagnosis: Diagnosis | None
    attempts: Annotated[list[Attempt], merge_attempts]
    """Every attempt of the run, in order."""
    summaries: Annotated[list[StageSummary], merge_summaries]
    usage: Usage
    """Cost of all answers of the run."""
    seconds: float
    """Seconds spent inside the nodes. A pause between two nodes (an interrupt, a kill and a resume) is not counted."""


class State(InputState, OutputState):
    """The state of the whole graph."""


class StageState(OutputState, total=False):
    """The state of one stage: the shared keys, and two that no other stage sees."""

    mode: Mode | None
    """The mode in which the coder writes next; None until a role has answered."""
    pending: Usage
    """Cost of the answers since the last attempt."""
