"""What travels through the graph: the run's input, its output, and its whole state.

The keys that outlive a stage are the INTER-stage context (paper, section on stage-aware collaboration): the best kernel
so far with its evidence, every attempt, and one summary per finished stage. What `open` empties is the INTRA-stage one.
A strict checkpoint loads only the pydantic types that these annotations name. The lists that grow with a run, and the
evaluation, which weighs most, are channels of deltas: a checkpoint stores what a step wrote. The whole list of attempts
is stored with every hundredth, those of summaries and sweeps, which are few, with each: so no reader goes back further
than a stage or a hundred attempts.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, Literal, NotRequired, Required

import pydantic_core
from typing_extensions import TypedDict

from egg_graph.arguments import FirstPlan, KernelToStartFrom, ReferenceText, TaskName
from egg_graph.channels import Deltas
from egg_graph.schema import (
    Analysis,
    Attempt,
    BadInput,
    Baseline,
    Candidate,
    Diagnosis,
    Evaluation,
    KernelTask,
    Lesson,
    Mode,
    Profile,
    SideBySide,
    SideDraft,
    StageSummary,
    Status,
    Sweep,
    Usage,
)

RunStatus = Status | Literal["reference_kept"]
"""How a run ended: the status of the kernel that it hands over, `unevaluable` where the reference itself cannot be
judged, or `reference_kept` where no attempt was usable."""
OVERWRITE = "__overwrite__"
"""Key of LangGraph's JSON form of `Overwrite`."""


def merge_attempts(attempts: list[Attempt], writes: Sequence[list[Attempt]]) -> list[Attempt]:
    """Union by attempt number; of two attempts with one number, the later write's stays.

    A graph inside another one returns the whole list that it was given, with its own attempts added; concatenation
    would count the earlier ones twice. A checkpoint keeps the writes, and whoever loads it merges them anew: so they
    may be dicts, where the checkpointer does not know the type.
    """
    merged = {attempt.number: attempt for attempt in map(Attempt.model_validate, chain(attempts, *writes))}
    return [attempt for _, attempt in sorted(merged.items())]


def merge_summaries(summaries: list[StageSummary], writes: Sequence[list[StageSummary]]) -> list[StageSummary]:
    """Union by stage, in the order in which the stages ended. See `merge_attempts`."""
    each = map(StageSummary.model_validate, chain(summaries, *writes))
    return list({summary.stage: summary for summary in each}.values())


def merge_sweeps(sweeps: list[Sweep], writes: Sequence[list[Sweep]]) -> list[Sweep]:
    """Union by stage, in the order in which the stages were swept. See `merge_attempts`."""
    each = map(Sweep.model_validate, chain(sweeps, *writes))
    return list({sweep.stage: sweep for sweep in each}.values())


def replace_lessons(_: list[Lesson], writes: Sequence[list[Lesson]]) -> list[Lesson]:
    """The lessons written last. See `merge_attempts`."""
    return [Lesson.model_validate(lesson) for lesson in writes[-1]]


def merge_drafts(drafts: list[SideDraft], writes: Sequence[list[SideDraft]]) -> list[SideDraft]:
    """Union by number, so that drafts that end at once may be written in any order. See `merge_attempts`."""
    merged = {draft.number: draft for draft in map(SideDraft.model_validate, chain(drafts, *writes))}
    return [draft for _, draft in sorted(merged.items())]


def take_last(_: Any, writes: Sequence[Any]) -> Any:
    """The value written last."""
    return writes[-1]


class LastDelta(Deltas):
    """The value written last, None before. A checkpoint stores what a step wrote, and the value with every tenth write.

    LangGraph's SQLite checkpointer stores any other value again at every step: for an evaluation 12 kB.
    """

    def __init__(self, reducer: Any = take_last, typ: Any = None, *, snapshot_frequency: int = 10) -> None:
        super().__init__(reducer, type(None), snapshot_frequency=snapshot_frequency)  # what is empty is None


class InputState(TypedDict):
    """What a run is given."""

    reference: Required[ReferenceText]
    name: NotRequired[TaskName]
    kernel: NotRequired[KernelToStartFrom]
    plan: NotRequired[FirstPlan]


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
    evaluation: Annotated[Evaluation | None, LastDelta()]
    """Evaluation of `best`."""
    finalists: dict[str, Status]
    """Kernels that stood to be handed over when the run ended: `Candidate.id` -> status by a finalist's checks."""
    candidate: Candidate | None
    """The candidate that is evaluated next, or was evaluated last."""
    profile: Profile
    """Profile of the candidate evaluated last; when the run has ended, profile of `best`."""
    analysis: Analysis | None
    diagnosis: Diagnosis | None
    attempts: Annotated[list[Attempt], Deltas(merge_attempts)]
    """Every attempt of the run, in order."""
    summaries: Annotated[list[StageSummary], Deltas(merge_summaries, snapshot_frequency=1)]
    sweeps: Annotated[list[Sweep], Deltas(merge_sweeps, snapshot_frequency=1)]
    """What the tuner of each stage tried."""
    lessons: Annotated[list[Lesson], Deltas(replace_lessons, snapshot_frequency=1)]
    """What earlier runs measured on problems like this one, as it was recalled when the run began."""
    usage: Usage
    """Cost of all answers of the run."""
    costs: dict[str, Usage]
    """The same by role and by stage: each answer counts in both."""
    seconds: float
    """Seconds spent inside the nodes. A pause between two nodes (an interrupt, a kill and a resume) is not counted."""


def to_json(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state, or any part of it, as JSON values: dicts, lists, texts, numbers, booleans and None.

    Numbers that are not finite become the texts `Infinity`, `-Infinity` and `NaN`, which the schema reads back.

    Raises:
        BadInput: if a key of your own holds what has no JSON form.
    """
    try:
        text = pydantic_core.to_json(dict(state), inf_nan_mode="strings")
    except pydantic_core.PydanticSerializationError as error:
        raise BadInput(f"the state has no JSON form: {error}") from error
    values: dict[str, Any] = json.loads(text)
    return values


class StageState(OutputState, total=False):
    """What a step of a stage sees: the shared keys, four that `open` empties when a stage begins, and those of drafts
    that are written side by side, which no step writes where one coder drafts alone."""

    mode: Mode | None
    """The mode in which the coder writes next; None until a role has answered."""
    pending: Usage
    """Cost of the answers since the last attempt."""
    drafted: str | None
    """`id` of the candidate that the coder wrote and that waits for the evaluator; None where none does."""
    withheld: str
    """The budget that forbade the last role to ask its model again for a usable answer; empty where none did."""
    side_by_side: SideBySide | None
    """The drafts that are in work side by side; None where none are."""
    drafts: Annotated[list[SideDraft], Deltas(merge_drafts, snapshot_frequency=10)]
    """What came of each of them so far."""


class State(InputState, StageState):
    """The state of the whole graph."""
