"""The embedded expert: analyst, coder and debugger with no model. Each answer follows from its brief alone."""

import time
from collections.abc import Iterable

from egg_graph.expert.capture.process import CannotCapture, capture_graph
from egg_graph.expert.codegen.forward import CannotWrite
from egg_graph.expert.codegen.module import read_plan, write_module
from egg_graph.expert.playbooks.planner import Plan, make_plan
from egg_graph.expert.playbooks.preferences import preferred
from egg_graph.expert.playbooks.registry import BY_NAME, PLAYBOOKS, playbooks_of
from egg_graph.expert.roles import debugger as words
from egg_graph.expert.roles.analyst import structure, tuning
from egg_graph.expert.roles.remedy import Remedy, remedy_for, worst
from egg_graph.expert.roles.switch import LIBRARY, chosen_in
from egg_graph.schema import (
    Analysis,
    Brief,
    Candidate,
    Diagnosis,
    Draft,
    Evaluation,
    Knob,
    Usage,
)


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
            analysis = structure(brief, brief.kernel)
        else:
            analysis = tuning(brief, brief.kernel)
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
            return _seeded(brief)
        groups, dropped = read_plan(kernel.source)
        if brief.mode == "repair":
            return _repaired(brief, kernel)
        if brief.stage == "algorithmic_structure" and brief.analysis is not None:
            choice = chosen_in(brief.analysis.plan)
            if choice is not None and set(choice[0]) <= groups.keys():
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
    plan = make_plan(capture_graph(task), PLAYBOOKS, variants, dropped)
    source = write_module(task.reference, plan, BY_NAME, task.precision, config, task.target)
    return source, _note(plan)


def _note(plan: Plan) -> str:
    kernels = ", ".join(f"{name} ({len(group.nodes)} operators)" for name, group in plan.groups.items())
    left = ", ".join(dict.fromkeys(node.base for node in plan.left))
    return f"kernels: {kernels}; stays PyTorch: {left or 'nothing'}"


def _seeded(brief: Brief) -> tuple[str, str]:
    """The first kernel: each group in the structure that paid on hardware like the target."""
    graph = capture_graph(brief.task)
    groups = make_plan(graph, PLAYBOOKS).groups
    liked = {name: preferred(graph, group, brief.task.precision, brief.task.target) for name, group in groups.items()}
    return _written(brief, liked, (), {})


def _switched(
    brief: Brief, choice: tuple[tuple[str, ...], str], groups: dict[str, str], dropped: tuple[str, ...]
) -> tuple[str, str]:
    names, variant = choice
    if variant == LIBRARY:
        kept = {name: now for name, now in groups.items() if name not in names}
        return _written(brief, kept, _dropping(brief, dropped, playbooks_of(groups)[names[0]], len(names)), {})
    return _written(brief, {**groups, **dict.fromkeys(names, variant)}, dropped, _others(brief.kernel, names))


def _dropping(brief: Brief, dropped: tuple[str, ...], playbook: str, count: int) -> tuple[str, ...]:
    """Drop so many groups of a playbook, by the names they have once those before them are gone."""
    for _ in range(count):
        groups = make_plan(capture_graph(brief.task), PLAYBOOKS, None, dropped).groups
        dropped = (*dropped, next(name for name, group in groups.items() if group.playbook == playbook))
    return dropped


def _others(kernel: Candidate | None, names: Iterable[str]) -> dict[str, Knob]:
    """The knobs of the groups that keep their structure."""
    prefixes = tuple(f"{name}_" for name in names)
    return {} if kernel is None else {k: v for k, v in kernel.config.items() if not k.startswith(prefixes)}


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
        source, note = _written(brief, plainest, dropped, _others(kernel, (remedy.group,)))
        if source not in tried:
            return source, note
    return _written(brief, groups, (*dropped, remedy.group), _others(kernel, (remedy.group,)))


def _remedy(kernel: Candidate, evaluation: Evaluation) -> Remedy:
    groups, _ = read_plan(kernel.source)
    return remedy_for(evaluation, kernel, groups, playbooks_of(groups))


def _spent(started: float) -> Usage:
    return Usage(seconds=time.monotonic() - started)
