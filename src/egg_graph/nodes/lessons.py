"""What a run measured, as lessons: facts of a clock alone, plan by plan."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from egg_graph.evaluator.fingerprint import evaluator_digest
from egg_graph.memory import Topic
from egg_graph.nodes.history import measure_deltas, read_chains
from egg_graph.nodes.roles import USER
from egg_graph.schema import Attempt, Environment, KernelTask, Lesson
from egg_graph.stages import STAGES
from egg_graph.state import State

PYTORCH = "PyTorch"
"""What a first kernel is measured against."""


def measured_lessons(state: State, topic: Topic) -> Iterator[Lesson]:
    """What this run measured, plan by plan: where a kernel is right, was timed on a GPU, and was judged itself."""
    attempts = {attempt.number: attempt for attempt in state.get("attempts", [])}
    timed = [a for a in attempts.values() if a.improved and a.evaluation.timing is not None]
    for first, last, improved in _ends(state, attempts):
        before = next((a for a in reversed(timed) if a.number < first.number), None)
        if first.candidate.mode == "seed":
            before, improved = None, last.evaluation.status == "faster"
        elif before is None:
            continue
        lesson = _lesson(state, topic, first, last, before, improved)
        if lesson is not None:
            yield lesson


class _End(NamedTuple):
    """A plan, where it ended."""

    first: Attempt
    last: Attempt
    improved: bool


def _ends(state: State, attempts: Mapping[int, Attempt]) -> Iterator[_End]:
    """The contender, then every chain of the run."""
    if 0 in attempts:
        yield _End(attempts[0], attempts[0], attempts[0].improved)
    for stage in STAGES:
        for chain in read_chains(state.get("attempts", []), state.get("best"), stage.name):
            if chain.outcome == "passed_over":
                continue  # the draft of this plan that went on tells what it is worth
            first, last = attempts[chain.steps[0].attempt], attempts[chain.steps[-1].attempt]
            yield _End(first, last, last.improved)


def _lesson(
    state: State, topic: Topic, first: Attempt, last: Attempt, before: Attempt | None, improved: bool
) -> Lesson | None:
    """The lesson of one plan; None where it teaches nothing: no plan, no clock, or no measurement of its own.

    Args:
        before: the attempt that made the best kernel before; None for PyTorch.
    """
    evaluation, baseline = last.evaluation, state["baseline"]
    environment, timing = evaluation.environment or baseline.environment, evaluation.timing
    plan = first.candidate.plan
    if timing is None or not evaluation.usable or last.repeats is not None:
        return None
    if environment is None or environment.gpu is None or not plan or first.candidate.author == USER:
        return None
    if before is None:
        compiled = timing.compile_ms if timing.baseline == "compile" else None
        against, before_ms = PYTORCH, compiled or timing.eager_ms
    else:
        assert before.evaluation.timing is not None, "only timed attempts are compared"
        against, before_ms = before.candidate.program, before.evaluation.timing.candidate_ms
    deltas = () if before is None else measure_deltas(before.evaluation, evaluation)
    return Lesson(
        **_about(state, topic),
        **_with(environment),
        stage=first.candidate.stage,
        category="none" if first.analysis is None else first.analysis.category,
        plan=plan,
        principles=() if first.analysis is None else first.analysis.principles,
        outcome="improved" if improved else "no_better",
        against=against,
        kernel=last.candidate.program,
        before_ms=before_ms,
        after_ms=timing.candidate_ms,
        deltas=tuple(delta for delta in deltas if delta.metric != "milliseconds"),
        ratio=timing.ratio,
        ratio_low=timing.ratio_low,
        ratio_high=timing.ratio_high,
    )


def _about(state: State, topic: Topic) -> dict[str, Any]:
    return {
        "structure": topic.structure,
        "operators": topic.operators,
        "bottleneck": topic.bottleneck,
        "floor_ms": topic.floor_ms,
        "precision": topic.precision,
        "problem": problem_of(state["task"]),
    }


def _with(environment: Environment) -> dict[str, Any]:
    return {
        "gpu": environment.gpu or "",
        "driver": environment.driver or "",
        "torch": environment.torch,
        "triton": environment.triton,
        "evaluator": evaluator_digest(),
        "measured": datetime.now(UTC).date().isoformat(),
    }


def problem_of(task: KernelTask) -> str:
    """Digest of a task, whatever it is called."""
    return task.model_copy(update={"name": ""}).digest
