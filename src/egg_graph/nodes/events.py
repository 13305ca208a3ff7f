"""The events of a run: small dicts with stable keys on the stream's `custom` channel, for a progress display.

| event | sent by | keys beside `event` |
| --- | --- | --- |
| `started` | every node, but none of a stage that does not run | `node`; in a stage `stage`; of those who work at an attempt `attempt`, `mode`; of draft and judge `draft` |
| `started` | tuner, for each configuration of a sweep | `node`, `stage`, `attempt`, `mode`, `candidate`, `config`, `number` (from 1), `of`, `doing` |
| `working` | every node, at the latest two seconds after its last one | as its `started`, and `doing` (what the evaluator reports), `seconds` (since it started) |
| `baseline` | baseline | `status` (`ok`, `unevaluable`), `reason`, `eager_ms`, `compile_ms`, `floor_ms`, `uncounted` (operators whose products the floor leaves out); where tuned PyTorch was asked for `tuned_ms` (None where it was not measured), `tuned` (it in one line, and what to set) |
| `contender` | contender, where the embedded expert has no kernel | `status` (`none`), `reason` |
| `stage` | open, close | `stage`, `status` (`opened`, `skipped` (once, of the first stage that would tune untimed), or the outcome of its summary), `attempt` (attempts so far), `reason` |
| `role` | analyst, coder, debugger; draft, and evaluator of drafts, as the coder | `stage`, `role`, `attempt` (the one in work; of drafts side by side the first of theirs), `draft` (the number of one of them), `mode`, `status` (`worth_optimizing`, `not_worth_optimizing`, `side_by_side` (drafts are ordered; `reason` tells how many), `drafted`, `dropped` (a draft that is no attempt, and why), `no_code`, `declined` (a plan that the team does not follow, or a reference that it has no kernel for), `diagnosed`, `no_answer` (of the analyst or the debugger: what stands in for a usable answer, and why)), `reason` |
| `request` | analyst, coder, debugger, draft, for each request to a model that has ended | `stage`, `role`, `attempt`, `mode`, `number` (in the run; 0 where nobody counts), `model`, `status` (`answered`, `failed`, `stopped`), `reason`, `again_in` (seconds until it is sent again, or None), `input_tokens`, `output_tokens`, `estimated` (nobody told the tokens), `dollars` (None where the price is not known), `seconds` |
| `attempt` | evaluator, tuner; rank, for each draft, of which the last one goes on; contender (attempt 0) | `stage`, `attempt`, `mode`, `candidate`, `author`, `status`, `reason`, `improved`, `repeated`, `error`, `budget`, `milliseconds`, `bound_ms`, `ratio` |
| `ledger` | baseline, contender, analyst, coder, draft, debugger, evaluator, judge, tuner, conclude: one for each call of the evaluator or of a role, also for one that the machine failed | `call` (`baseline`, `evaluation`, `finalist`, `sweep`, `profile`, or the role), `begin` (ISO 8601, UTC), `seconds`, `parts` (seconds by part, which add up), `memory` (peak bytes by process), `usage`; in a stage `stage`; where there is one `attempt`, `candidate`; `status`, `reason` |
| `sweep` | tuner, where a sweep does not try every configuration | `stage`, `status` (`cut`), `reason` (what is left out, and which limit) |
| `trial` | tuner | `stage`, `config`, `status`, `reason`, `milliseconds` |
| `memory` | baseline, conclude, where there is something to tell | `status` (`recalled`, `kept`, `unavailable` (the store failed: the run goes on without it)), `reason` |
| `verdict` | conclude | `status`, `reason` (the verdict's text), and the numbers of an attempt |

`error` and `budget` are those of the check with the largest error relative to its budget. Milliseconds are None where
no GPU measured them; `bound_ms` is a lower bound, never a time. `ratio` is the baseline's time over the candidate's.
`author` is the team's name, `embedded expert`, `tuner`, or `user` for a kernel that a person handed in or edited.
A configuration's `started`, and its `trial` as soon as it is known, need an evaluator that reports its progress
(`egg_graph.evaluator.report_progress`); without reports the trials come together when the sweep is over.
"""  # noqa: E501

from collections.abc import Sequence
from typing import Any, Literal

from typing_extensions import TypedDict

from egg_graph.schema import (
    Attempt,
    Baseline,
    CallEntry,
    CallKind,
    Candidate,
    Evaluation,
    Knob,
    Mode,
    ModelRequest,
    Part,
    Role,
    StageName,
    Trial,
)


class Event(TypedDict, total=False):
    """One event. The table above lists the keys of each kind."""

    event: Literal[
        "started",
        "working",
        "baseline",
        "contender",
        "stage",
        "role",
        "request",
        "attempt",
        "sweep",
        "trial",
        "ledger",
        "memory",
        "verdict",
    ]
    node: str
    stage: StageName
    role: Role
    attempt: int
    draft: int
    mode: Mode
    candidate: str
    author: str
    status: str
    reason: str
    improved: bool
    repeated: bool
    config: dict[str, Knob]
    number: int
    of: int
    doing: str
    seconds: float
    call: CallKind
    begin: str
    parts: dict[Part, float]
    memory: dict[str, float | None]
    usage: dict[str, Any]
    error: float | None
    budget: float | None
    milliseconds: float | None
    bound_ms: float | None
    ratio: float | None
    eager_ms: float | None
    compile_ms: float | None
    tuned_ms: float | None
    tuned: str
    floor_ms: float
    uncounted: list[str]
    model: str
    again_in: float | None
    input_tokens: int
    output_tokens: int
    estimated: bool
    dollars: float | None


def numbers(evaluation: Evaluation) -> Event:
    """The numbers of an evaluation that a progress line shows."""
    checks = [c for c in evaluation.checks if c.budget > 0]
    worst = max(checks, key=lambda c: c.error / c.budget, default=None)
    timing, bound = evaluation.timing, evaluation.bound
    return Event(
        error=None if worst is None else worst.error,
        budget=None if worst is None else worst.budget,
        milliseconds=None if timing is None else timing.candidate_ms,
        bound_ms=None if bound is None else bound.milliseconds,
        ratio=None if timing is None else timing.ratio,
    )


def baseline_event(baseline: Baseline) -> Event:
    tuned = Event()
    if baseline.tuned is not None:
        told = "; ".join(filter(None, (baseline.tuned.advice(), baseline.tuned.tell())))
        tuned = Event(tuned_ms=baseline.tuned.milliseconds, tuned=told)
    return Event(
        event="baseline",
        status="unevaluable" if baseline.unevaluable else "ok",
        reason=baseline.unevaluable,
        eager_ms=baseline.eager_ms,
        compile_ms=baseline.compile_ms,
        floor_ms=baseline.floor_ms,
        uncounted=list(baseline.uncounted),
        **tuned,
    )


def request_event(request: ModelRequest) -> Event:
    usage = request.usage
    return Event(
        event="request",
        stage=request.stage,
        role=request.role,
        attempt=request.attempt,
        mode=request.mode,
        number=request.number,
        model=request.model,
        status=request.outcome,
        reason=request.reason,
        again_in=request.again_in,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        estimated=usage.estimated > 0,
        dollars=None if usage.unpriced else usage.dollars,
        seconds=round(usage.seconds, 1),
    )


def attempt_event(attempt: Attempt, *, repeated: bool) -> Event:
    return Event(
        event="attempt",
        stage=attempt.candidate.stage,
        attempt=attempt.number,
        mode=attempt.candidate.mode,
        candidate=attempt.candidate.id,
        author=attempt.candidate.author,
        status=attempt.evaluation.status,
        reason=attempt.evaluation.reason,
        improved=attempt.improved,
        repeated=repeated,
        **numbers(attempt.evaluation),
    )


def configuration_event(stage: StageName, candidates: Sequence[Candidate], number: int, doing: str) -> Event:
    """The event that a configuration of a sweep is being tried; `number` counts from 0."""
    return Event(
        event="started",
        node="tuner",
        stage=stage,
        mode="tune",
        candidate=candidates[number].id,
        config=candidates[number].config,
        number=number + 1,
        of=len(candidates),
        doing=doing,
    )


def cut_event(stage: StageName, reason: str) -> Event:
    """The event that a sweep does not try every configuration."""
    return Event(event="sweep", stage=stage, status="cut", reason=reason)


def ledger_event(entry: CallEntry) -> Event:
    """The event of a call that is over: the entry's fields as JSON values, but for its `line`."""
    return Event(event="ledger", **entry.model_dump(mode="json", exclude={"line"}, exclude_none=True))  # type: ignore[typeddict-item]


def entry_of_event(event: Event) -> CallEntry:
    """The entry that such an event tells of."""
    return CallEntry.model_validate({name: value for name, value in event.items() if name != "event"})


def trial_event(stage: StageName, trial: Trial) -> Event:
    return Event(
        event="trial",
        stage=stage,
        config=trial.config,
        status=trial.status,
        reason=trial.reason,
        milliseconds=trial.milliseconds,
    )
