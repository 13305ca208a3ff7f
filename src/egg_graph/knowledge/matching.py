"""Find the principles that apply to a task. What a program cannot decide stands in `Principle.when`, for the agent."""

from collections.abc import Iterable

from egg_graph.schema import Baseline, KernelTask, Principle, StageName


def match_principles(
    principles: Iterable[Principle], *, task: KernelTask, stage: StageName, baseline: Baseline
) -> tuple[Principle, ...]:
    """Find the principles of a stage that fit the target's vendor and architecture, the precision and the operators.

    A field left empty in a principle fits everything. `operators` are prefixes of ATen names, with or without the
    `aten.` in front ("softmax" fits "aten._softmax.default"). Where the baseline names no operators, all fit.
    """
    operators = tuple(_bare(name) for name in baseline.operators)
    return tuple(
        principle
        for principle in principles
        if stage in principle.stages
        and task.target.vendor in (principle.vendors or (task.target.vendor,))
        and task.target.arch in (principle.architectures or (task.target.arch,))
        and task.precision in (principle.precisions or (task.precision,))
        and _about(principle, operators)
    )


def _about(principle: Principle, operators: tuple[str, ...]) -> bool:
    if not principle.operators or not operators:
        return True
    prefixes = tuple(_bare(prefix) for prefix in principle.operators)
    return any(name.startswith(prefixes) for name in operators)


def _bare(name: str) -> str:
    return name.removeprefix("aten.").removeprefix("aten::").lstrip("_")
