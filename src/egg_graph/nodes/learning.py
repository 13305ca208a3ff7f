"""Recall what earlier runs measured on problems like this one, and keep what this run measured, in `runtime.store`.

A kernel that fails when it is measured again takes its lessons with it, whichever run kept them.
"""

from collections.abc import Mapping

from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore

from egg_graph.context import Context
from egg_graph.memory import LessonStore, choose, topic_of
from egg_graph.nodes.events import Event
from egg_graph.nodes.improvement import NOISE
from egg_graph.nodes.lessons import PYTORCH, measured_lessons, problem_of
from egg_graph.schema import Baseline, Evaluation, InfrastructureError, KernelTask, Lesson
from egg_graph.state import State

NO_FAULT_OF_THE_KERNEL = ("infra_error", "unevaluable")
"""Statuses that say nothing about the kernel itself."""


async def recall(runtime: Runtime[Context], context: Context, task: KernelTask, baseline: Baseline) -> list[Lesson]:
    """The lessons that this run is told; none where there is no store or memory is off.

    They are part of the state from then on: what others learn meanwhile changes no prompt of this run.
    """
    store = _store(runtime, context)
    if store is None or baseline.unevaluable:
        return []
    topic = topic_of(task, baseline, context.knowledge_dir)
    try:
        kept = await LessonStore(store, topic.gpu).read()
    except InfrastructureError as error:
        runtime.stream_writer(Event(event="memory", status="unavailable", reason=str(error)))
        return []
    lessons = list(choose(kept.holding, topic))
    if lessons or kept.unreadable:
        unreadable = f"; {len(kept.unreadable)} entries cannot be read by this version" if kept.unreadable else ""
        told = f"{len(lessons)} lessons of problems like this one{unreadable}"
        runtime.stream_writer(Event(event="memory", status="recalled", reason=told))
    return lessons


async def learn(
    runtime: Runtime[Context], context: Context, state: State, measured_again: Mapping[str, Evaluation]
) -> None:
    """Keep what this run measured, and retract what a measurement of it did not confirm.

    Args:
        measured_again: the evaluations of finalists, by `Candidate.program` of the kernel that was judged before.
    """
    store = _store(runtime, context)
    if store is None or state["baseline"].eager_ms is None:
        return
    topic = topic_of(state["task"], state["baseline"], context.knowledge_dir)
    lessons = LessonStore(store, topic.gpu)
    found = list(measured_lessons(state, topic))
    try:
        kept = await lessons.read()
        known = {lesson.key: lesson for lesson in kept.lessons}
        fresh, refuted = _weigh(found, known, failing(state, measured_again), measured_again)
        refuted = {key: why for key, why in refuted.items() if key not in kept.retracted}
        await lessons.keep(fresh)
        await lessons.retract(refuted)
    except InfrastructureError as error:
        runtime.stream_writer(Event(event="memory", status="unavailable", reason=str(error)))
        return
    if fresh or refuted:
        told = f"{len(fresh)} lessons kept" + (f", {len(refuted)} retracted" if refuted else "")
        runtime.stream_writer(Event(event="memory", status="kept", reason=told))


def failing(state: State, measured_again: Mapping[str, Evaluation]) -> dict[tuple[str, str], str]:
    """Why a kernel's lessons cannot hold, by the problem and `Candidate.program`: this run found it not right."""
    problem = problem_of(state["task"])
    judged = {a.candidate.program: a.evaluation for a in state.get("attempts", [])} | dict(measured_again)
    return {
        (problem, program): f"the kernel failed when it was judged again: {evaluation.status}"
        for program, evaluation in judged.items()
        if not evaluation.usable and evaluation.status not in NO_FAULT_OF_THE_KERNEL
    }


def _weigh(
    found: list[Lesson],
    known: Mapping[str, Lesson],
    failed: Mapping[tuple[str, str], str],
    measured_again: Mapping[str, Evaluation],
) -> tuple[list[Lesson], dict[str, str]]:
    """The lessons to keep, which are new and confirmed, and why others that are known do not hold, by their keys."""
    refuted = {key: failed[at] for key, lesson in known.items() if (at := (lesson.problem, lesson.kernel)) in failed}
    fresh = []
    for lesson in found:
        earlier, again = known.get(lesson.key), measured_again.get(lesson.kernel)
        why = failed.get((lesson.problem, lesson.kernel), "") or _unconfirmed(lesson, again)
        if earlier is not None and earlier.outcome != lesson.outcome:
            why = why or f"measured again: {lesson.after_ms:.4g} ms against {lesson.before_ms:.4g} ms"
        if not why and earlier is None:
            fresh.append(lesson)
        elif why and earlier is not None:
            refuted[lesson.key] = why
    return fresh, refuted


def _unconfirmed(lesson: Lesson, again: Evaluation | None) -> str:
    """Why a second measurement of the kernel, as a finalist, does not confirm a gain; empty where it does."""
    if again is None or again.timing is None or lesson.outcome != "improved":
        return ""
    time = again.timing.candidate_ms
    held = again.status == "faster" if lesson.against == PYTORCH else time < lesson.before_ms * (1 - NOISE)
    return "" if held else f"measured again: {time:.4g} ms against {lesson.before_ms:.4g} ms"


def _store(runtime: Runtime[Context], context: Context) -> BaseStore | None:
    return runtime.store if context.memory else None
