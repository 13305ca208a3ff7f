"""Find the principles that apply to a task. What a program cannot decide stands in `Principle.when`, for the agent."""

from collections.abc import Iterable, Mapping, Sequence

from egg_graph.knowledge.structure import Structure, structures_of
from egg_graph.schema import Baseline, KernelTask, Principle, PrincipleScore, StageName


def match_principles(
    principles: Iterable[Principle],
    *,
    task: KernelTask,
    stage: StageName,
    baseline: Baseline,
    values: Mapping[str, float] | None = None,
    scores: Sequence[PrincipleScore] = (),
) -> tuple[Principle, ...]:
    """Find the principles of a stage that fit the target, the precision, the operators and what was measured.

    A field left empty in a principle fits everything. `operators` are prefixes of ATen names, with or without the
    `aten.` in front ("softmax" fits "aten._softmax.default"). Where the baseline names no operators, all fit; where it
    names one of unknown kind, all structures do. A principle with signs is left out where every metric of them was
    measured and none is shown.

    Args:
        values: metric -> value, measured on the kernel at hand.
        scores: what came of the principles that the run has followed.

    Returns:
        The most relevant first: those whose effect was measured more often than missed, those with a sign that is
        shown, those about these operators and structures; in the order given where that does not tell them apart.
        Those that were missed more often than held come last.
    """
    operators = tuple(_bare(name) for name in baseline.operators)
    structures = structures_of(baseline.operators) if operators else None
    measured, record = values or {}, {score.principle: score.held - score.missed for score in scores}
    fitting = [
        principle
        for principle in principles
        if stage in principle.stages
        and task.target.vendor in (principle.vendors or (task.target.vendor,))
        and task.target.arch in (principle.architectures or (task.target.arch,))
        and task.precision in (principle.precisions or (task.precision,))
        and _about(principle, operators)
        and _built_so(principle, structures)
        and not _ruled_out(principle, measured)
    ]

    def relevance(principle: Principle) -> tuple[int, ...]:
        held = record.get(principle.id, 0)
        shown = any(_shown(principle, measured))
        named = bool(principle.operators) + bool(principle.structures)
        return (-min(max(held, -1), 1), -int(shown), -named)

    return tuple(sorted(fitting, key=relevance))


def _shown(principle: Principle, values: Mapping[str, float]) -> list[bool]:
    """Of each sign that was measured, whether it is shown."""
    return [sign.shown_by(values[sign.metric]) for sign in principle.signs if sign.metric in values]


def _ruled_out(principle: Principle, values: Mapping[str, float]) -> bool:
    shown = _shown(principle, values)
    return bool(shown) and len(shown) == len(principle.signs) and not any(shown)


def _built_so(principle: Principle, structures: frozenset[Structure] | None) -> bool:
    return not principle.structures or structures is None or not structures.isdisjoint(principle.structures)


def _about(principle: Principle, operators: tuple[str, ...]) -> bool:
    if not principle.operators or not operators:
        return True
    prefixes = tuple(_bare(prefix) for prefix in principle.operators)
    return any(name.startswith(prefixes) for name in operators)


def _bare(name: str) -> str:
    return name.removeprefix("aten.").removeprefix("aten::").lstrip("_")
