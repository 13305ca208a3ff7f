"""The embedded expert: analyst, coder and debugger with no model. Each answer follows from its brief alone."""

import time
from collections.abc import Iterable

from egg_graph.expert import words
from egg_graph.expert.alternatives import LIBRARY, Alternative, alternatives, chosen_in, cited
from egg_graph.expert.capturing import CannotCapture, capture
from egg_graph.expert.forward import CannotWrite
from egg_graph.expert.plan import Plan, make_plan
from egg_graph.expert.registry import BY_NAME, PLAYBOOKS
from egg_graph.expert.remedy import Remedy, remedy_for, worst
from egg_graph.expert.writer import read_plan, write_module
from egg_graph.schema import (
    Analysis,
    Attempt,
    Brief,
    Candidate,
    Diagnosis,
    Draft,
    Evaluation,
    Expectation,
    Knob,
    StageName,
    Usage,
)

NEAR_THE_BOUND = 1.10
"""A kernel within this factor of its roofline bound has nothing left that a structure could win."""
TUNING: dict[StageName, tuple[str, Expectation]] = {
    "parallel_mapping": ("warps and work per program", Expectation(metric="occupancy", direction="up")),
    "tensor_tiling": ("block shapes", Expectation(metric="registers", direction="down")),
    "memory_optimization": ("pipelining depth and access", Expectation(metric="milliseconds", direction="down")),
}


class EmbeddedExpert:
    """Plays the whole Team from playbooks: no key, no network, no state between calls."""

    name = "embedded expert"

    # ------------------------------------------------------------------------------------------------ analyst

    def analyze(self, brief: Brief) -> Analysis:
        """In the first stage: the next structural alternative worth an evaluation. Later: which knobs to sweep."""
        started = time.monotonic()
        if brief.kernel is None:
            analysis = Analysis(worth_optimizing=False, bottleneck="there is no kernel to analyze")
        elif brief.stage == "algorithmic_structure":
            analysis = _structure(brief, brief.kernel)
        else:
            analysis = _tuning(brief, brief.kernel)
        return analysis.model_copy(update={"usage": _spent(started)})

    # -------------------------------------------------------------------------------------------------- coder

    def write(self, brief: Brief) -> Draft:
        """Seed: plan and write. Optimize: the structure that the analysis names. Repair: the remedy of the failure.

        Raises:
            BadInput: if the reference cannot be loaded.
            InfrastructureError: if the capturing process failed.
        """
        started = time.monotonic()
        try:
            source, note = self._source(brief)
            draft = Draft(source=source, note=note)
        except (CannotCapture, CannotWrite) as error:
            draft = Draft(problem=f"the embedded expert has no kernel for this reference: {error}")
        return draft.model_copy(update={"usage": _spent(started)})

    def _source(self, brief: Brief) -> tuple[str, str]:
        kernel = brief.kernel
        if brief.mode == "seed" or kernel is None:
            return _written(brief, {}, (), {})
        groups, dropped = read_plan(kernel.source)
        if brief.mode == "repair":
            return _repaired(brief, kernel)
        if brief.stage == "algorithmic_structure" and brief.analysis is not None:
            choice = chosen_in(brief.analysis.plan)
            if choice is not None and choice[0] in groups:
                return _switched(brief, choice, groups, dropped)
        return kernel.source, "unchanged: only its knobs are left to turn"

    # ----------------------------------------------------------------------------------------------- debugger

    def debug(self, brief: Brief) -> Diagnosis:
        """Failure class -> root cause and remedy, the one that `write` applies in repair mode."""
        started = time.monotonic()
        if brief.kernel is None or brief.evaluation is None:
            return Diagnosis(critical_issue="There is no evaluated kernel.", modification_plan="Write one.")
        remedy = _remedy(brief.kernel, brief.evaluation)
        finding = worst(brief.evaluation)
        message = finding.message if finding is not None else brief.evaluation.reason
        where = f" ({finding.where})" if finding is not None and finding.where else ""
        return Diagnosis(
            critical_issue=words.cause(remedy, message + where),
            modification_plan=words.plan(remedy),
            usage=_spent(started),
        )


# ------------------------------------------------------------------------------------------------------ writing


def _written(
    brief: Brief, variants: dict[str, str], dropped: Iterable[str], config: dict[str, Knob]
) -> tuple[str, str]:
    task = brief.task
    plan = make_plan(capture(task), PLAYBOOKS, variants, dropped)
    source = write_module(task.reference, plan, BY_NAME, task.precision, config, task.target)
    return source, _note(plan)


def _note(plan: Plan) -> str:
    kernels = ", ".join(f"{name} ({len(group.nodes)} operators)" for name, group in plan.groups.items())
    left = ", ".join(dict.fromkeys(node.base for node in plan.left))
    return f"kernels: {kernels}; stays PyTorch: {left or 'nothing'}"


def _switched(
    brief: Brief, choice: tuple[str, str], groups: dict[str, str], dropped: tuple[str, ...]
) -> tuple[str, str]:
    group, variant = choice
    if variant == LIBRARY:
        return _written(brief, groups, (*dropped, group), {})
    return _written(brief, {**groups, group: variant}, dropped, _others(brief.kernel, group))


def _others(kernel: Candidate | None, group: str) -> dict[str, Knob]:
    """The knobs of the groups that keep their structure."""
    return {k: v for k, v in kernel.config.items() if not k.startswith(f"{group}_")} if kernel is not None else {}


def _repaired(brief: Brief, kernel: Candidate) -> tuple[str, str]:
    """Apply the remedy; where its result was tried before, the sterner one: back to PyTorch."""
    assert brief.evaluation is not None
    groups, dropped = read_plan(kernel.source)
    remedy = _remedy(kernel, brief.evaluation)
    tried = {a.candidate.source for a in brief.attempts} | {kernel.source}
    if remedy.action == "none":
        return kernel.source, "unchanged: the kernel is not to blame"
    if remedy.action == "rewrite":
        source, note = _written(brief, {}, (), {})
        if source not in tried:
            return source, note
        groups, dropped = read_plan(source)
        remedy = Remedy("drop", remedy.kind, next(iter(groups)))
    if remedy.action in ("shrink", "spread"):
        source, note = _written(brief, groups, dropped, {**kernel.config, **(remedy.knobs or {})})
        if source not in tried:
            return source, note
    if remedy.action == "plain":
        plainest = {name: variant for name, variant in groups.items() if name != remedy.group}
        source, note = _written(brief, plainest, dropped, _others(kernel, remedy.group))
        if source not in tried:
            return source, note
    return _written(brief, groups, (*dropped, remedy.group), _others(kernel, remedy.group))


def _remedy(kernel: Candidate, evaluation: Evaluation) -> Remedy:
    groups, _ = read_plan(kernel.source)
    return remedy_for(evaluation, kernel, groups, playbooks_of(groups))


def playbooks_of(groups: Iterable[str]) -> dict[str, str]:
    """The playbook of each group, from its name (`row`, `pointwise_2`)."""
    return {g: g if g in BY_NAME else g.rsplit("_", 1)[0] for g in groups}


# ---------------------------------------------------------------------------------------------------- analyzing


def _structure(brief: Brief, kernel: Candidate) -> Analysis:
    """Propose the next untried structure, unless the kernel is already near what the hardware allows."""
    bottleneck, ratio = _bottleneck(brief)
    groups, _ = read_plan(kernel.source)
    if not groups:
        return Analysis(
            worth_optimizing=False,
            bottleneck=bottleneck,
            root_cause="the kernel is not the expert's own: no plan to vary",
        )
    if ratio is not None and ratio <= NEAR_THE_BOUND:
        return Analysis(
            worth_optimizing=False,
            bottleneck=bottleneck,
            root_cause=f"{_kernels(groups)} reads and writes each tensor once; no structure moves less",
            principles=cited(brief, ("fuse_pointwise_chain", "one_read_per_row", "fewer_launches")),
        )
    for choice in alternatives(groups, playbooks_of(groups)):
        if not _tried(brief.attempts, choice) and _promising(brief, choice):
            return Analysis(
                worth_optimizing=True,
                bottleneck=bottleneck,
                root_cause=f"{choice.group} is written as {groups[choice.group] or 'its first structure'}",
                category=choice.category,
                plan=choice.plan(groups[choice.group]),
                expected=Expectation(metric="milliseconds" if _timed(brief) else "bound_ms", direction="down"),
                principles=cited(brief, choice.principles),
            )
    return Analysis(
        worth_optimizing=False,
        bottleneck=bottleneck,
        root_cause="no playbook offers a further structure that this evidence speaks for",
    )


def _promising(brief: Brief, choice: Alternative) -> bool:
    """Whether evidence speaks for trying it: a time beyond the bound; without a clock, spills that it would cure."""
    if _timed(brief):
        return True
    resources = brief.evaluation.resources if brief.evaluation is not None else ()
    spills = any(r.spill_bytes and r.kernel.startswith(choice.group) for r in resources)
    return spills and choice.variant in ("looped", "rows")


def _tried(attempts: tuple[Attempt, ...], choice: Alternative) -> bool:
    """Whether an attempt of this stage followed the same plan, or had the same structure."""
    for attempt in attempts:
        groups, dropped = read_plan(attempt.candidate.source)
        if chosen_in(attempt.candidate.plan) == (choice.group, choice.variant):
            return True
        if groups.get(choice.group) == choice.variant or (choice.variant == LIBRARY and choice.group in dropped):
            return True
    return False


def _tuning(brief: Brief, kernel: Candidate) -> Analysis:
    """Worth it exactly where the kernel leaves this stage knobs to turn and the stage has not looked at them yet."""
    bottleneck, _ = _bottleneck(brief)
    knobs = kernel.space.get(brief.stage, {})
    if not knobs:
        return Analysis(worth_optimizing=False, bottleneck=bottleneck, root_cause=f"no knob belongs to {brief.stage}")
    if brief.attempts:
        return Analysis(
            worth_optimizing=False, bottleneck=bottleneck, root_cause="the structure stands; only the sweep is left"
        )
    what, expected = TUNING[brief.stage]
    if _timed(brief):
        expected = Expectation(metric="milliseconds", direction="down")
    listed = "; ".join(f"{k} in {', '.join(str(v) for v in values)}" for k, values in knobs.items())
    return Analysis(
        worth_optimizing=True,
        bottleneck=bottleneck,
        root_cause=f"{what} are the playbook's first choice, not this problem's",
        category={"parallel_mapping": "parallel_mapping", "tensor_tiling": "tensor_tiling"}.get(  # type: ignore[arg-type]
            brief.stage, "memory_access"
        ),
        plan=f"Keep the source; sweep {what}: {listed}.",
        by="sweep",
        expected=expected,
        principles=cited(brief, tuple(p.id for p in brief.principles)),
    )


def _bottleneck(brief: Brief) -> tuple[str, float | None]:
    """Where the time goes, in words, and how far the kernel is from what it could be at best."""
    evaluation = brief.evaluation
    if evaluation is None or evaluation.bound is None:
        return "unknown: the evaluation holds no roofline bound", None
    bound = evaluation.bound
    if evaluation.timing is not None:
        ms = evaluation.timing.candidate_ms
        ratio = ms / max(bound.milliseconds, 1e-9)
        return f"{bound.limiter}: {ms:.4g} ms is {ratio:.2f}x the bound of {bound.milliseconds:.4g} ms", ratio
    floor = brief.baseline.floor_ms
    if floor <= 0:
        return f"{bound.limiter}: bound {bound.milliseconds * 1e3:.4g} µs in {bound.launches} launches", None
    ratio = bound.milliseconds / floor
    return f"{bound.limiter}: bound {bound.milliseconds * 1e3:.4g} µs is {ratio:.2f}x the floor", ratio


def _kernels(groups: dict[str, str]) -> str:
    return " and ".join(groups) if len(groups) <= 3 else f"each of {len(groups)} kernels"


def _timed(brief: Brief) -> bool:
    return brief.evaluation is not None and brief.evaluation.timing is not None


def _spent(started: float) -> Usage:
    return Usage(seconds=time.monotonic() - started)
