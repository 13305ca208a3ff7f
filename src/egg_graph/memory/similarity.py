"""Which lessons are about problems like the one at hand."""

import math
import re
from collections.abc import Iterable
from typing import NamedTuple, get_args

from egg_graph.knowledge import STRUCTURES, detect_hardware, structures_of
from egg_graph.knowledge.structure import kind_of
from egg_graph.schema import Baseline, KernelTask, Lesson, Precision, StageName
from egg_graph.schema.lesson import Bottleneck

LAUNCH_MS = 0.005
"""Floor below which a launch takes longer than the work [ms]."""
UNKNOWN = "unknown"
"""Structure of a reference with an operator of unknown kind."""
POINTWISE = "pointwise"
"""Structure of a reference that has none of `STRUCTURES`."""
ALIKE = 0.5
"""Least share of operators that two references of unknown structure have in common."""
OF_IMPROVED, OF_NO_BETTER = 3, 2
"""Most lessons of a stage that are recalled, by outcome."""
_BY_WEIGHT = ("attention", "convolution", "product_reduction", "product_tail", "plain_product", "scan", "row_reduction")


class Topic(NamedTuple):
    """What a run is about, as far as lessons of other runs are concerned."""

    gpu: str
    """Where its lessons are kept: `place_of` its GPU."""
    structure: str
    operators: tuple[str, ...]
    bottleneck: Bottleneck
    precision: Precision
    floor_ms: float


def topic_of(task: KernelTask, baseline: Baseline, folder: str | None = None) -> Topic:
    """The topic of a run.

    Args:
        folder: a folder with hardware specifications of the user's own.
    """
    environment = baseline.environment
    timed = baseline.eager_ms is not None and environment is not None and environment.gpu is not None
    return Topic(
        gpu=place_of(environment.gpu, folder) if timed else task.target.key,  # type: ignore[union-attr, arg-type]
        structure=structure_of(baseline.operators),
        operators=computing(baseline.operators),
        bottleneck=bottleneck_of(task, baseline),
        precision=task.precision,
        floor_ms=baseline.floor_ms,
    )


def place_of(gpu: str, folder: str | None = None) -> str:
    """The name under which a GPU's lessons are kept: its hardware key, or its own name in small letters."""
    return detect_hardware(gpu, folder) or "_".join(re.findall(r"[a-z0-9]+", gpu.lower())) or UNKNOWN


def structure_of(operators: Iterable[str]) -> str:
    """The heaviest structure that a reference's operators have (`egg_graph.knowledge.STRUCTURES`)."""
    found = structures_of(tuple(operators))
    if found is None:
        return UNKNOWN
    return next((name for name in (*_BY_WEIGHT, *STRUCTURES) if name in found), POINTWISE)


def computing(operators: Iterable[str]) -> tuple[str, ...]:
    """The operators that compute, by their bare names, each once, in alphabetical order."""
    return tuple(sorted({_bare(name) for name in operators if kind_of(name) != "view"}))


def bottleneck_of(task: KernelTask, baseline: Baseline) -> Bottleneck:
    """What sets the floor of a reference."""
    if baseline.floor_ms < LAUNCH_MS:
        return "launch"
    traffic_ms = 1e3 * baseline.compulsory_bytes / task.target.figure("dram_bandwidth")
    return "compute" if baseline.floor_ms > 1.001 * traffic_ms else "dram"


def choose(lessons: Iterable[Lesson], topic: Topic) -> tuple[Lesson, ...]:
    """The lessons that a run is told: of each stage a few, the nearest first, with those that did not pay among them.

    Of those with the same plan and outcome the nearest stands for all.

    The order hangs on nothing but the lessons chosen: chosen among themselves, they are the same in the same order.
    """
    near = sorted((one for one in lessons if similar(one, topic)), key=lambda one: _distance(one, topic))
    told: dict[tuple[str, str, str], Lesson] = {}
    for one in near:
        told.setdefault((one.stage, one.outcome, one.plan), one)
    chosen: list[Lesson] = []
    for stage in get_args(StageName):
        of_stage = [one for one in told.values() if one.stage == stage]
        improved = [one for one in of_stage if one.outcome == "improved"][:OF_IMPROVED]
        chosen += [*improved, *[one for one in of_stage if one.outcome == "no_better"][:OF_NO_BETTER]]
    return tuple(chosen)


def similar(lesson: Lesson, topic: Topic) -> bool:
    """Whether a lesson of the same GPU is about the same structure, bottleneck and precision."""
    if (lesson.structure, lesson.bottleneck, lesson.precision) != (topic.structure, topic.bottleneck, topic.precision):
        return False
    return topic.structure != UNKNOWN or _in_common(lesson, topic) >= ALIKE


def _distance(lesson: Lesson, topic: Topic) -> tuple[float, float, float, str]:
    """Sort key: operators in common, then size, then the gain; the key decides between equal ones."""
    sizes = (max(lesson.floor_ms, 1e-6), max(topic.floor_ms, 1e-6))
    apart = abs(math.log2(sizes[0] / sizes[1]))
    return -round(_in_common(lesson, topic), 3), round(apart, 1), lesson.percent, lesson.key


def _in_common(lesson: Lesson, topic: Topic) -> float:
    """Share of the operators of either that both have, 0 to 1."""
    ours, theirs = set(lesson.operators), set(topic.operators)
    return len(ours & theirs) / len(ours | theirs) if ours | theirs else 1.0


def _bare(name: str) -> str:
    return name.removeprefix("aten.").removeprefix("aten::").strip("_").partition(".")[0]
