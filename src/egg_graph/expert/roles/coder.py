"""The embedded coder: write the first kernel, switch its structure, or repair it."""

from collections.abc import Iterable

from egg_graph.expert.codegen.module import write_module
from egg_graph.expert.codegen.plan import Plan, read_plan
from egg_graph.expert.playbooks.convolution.layout import graph_of
from egg_graph.expert.playbooks.planner import drop_some, expectations, make_plan, plan_seed, write_kernels
from egg_graph.expert.playbooks.playbook import LIBRARY, Remedy
from egg_graph.expert.playbooks.registry import playbook_names, playbooks
from egg_graph.expert.roles.debugger import choose_remedy
from egg_graph.expert.roles.switch import read_switch
from egg_graph.schema import Brief, Candidate, Knob


def write_source(brief: Brief) -> tuple[str, str]:
    """Write the module that a brief asks for, with one line on what became of the reference's operators.

    Raises:
        BadInput: if the reference cannot be loaded.
        CannotCapture: if it has no graph.
        CannotWrite: if no kernel can be written for it.
        InfrastructureError: if the capturing process failed.
    """
    kernel = brief.kernel
    if brief.mode == "seed" or kernel is None:
        return _seed(brief)
    if brief.mode == "repair":
        return _repair(brief, kernel)
    groups, dropped = read_plan(kernel.source)
    if brief.stage == "algorithmic_structure" and brief.analysis is not None:
        choice = read_switch(brief.analysis.plan)
        if choice is not None and set(choice[0]) <= groups.keys():
            return _switch(brief, kernel, choice, groups, dropped)
    return kernel.source, "unchanged: only its knobs are left to turn"


def _write(brief: Brief, variants: dict[str, str], dropped: Iterable[str], config: dict[str, Knob]) -> tuple[str, str]:
    task = brief.task
    plan = make_plan(graph_of(task), playbooks(), variants, dropped)
    kernels = write_kernels(plan, playbooks(), task.precision, task.target)
    return write_module(task.reference, plan, kernels, config), _note(plan)


def _note(plan: Plan) -> str:
    kernels = ", ".join(f"{name} ({len(group.nodes)} operators)" for name, group in plan.groups.items())
    left = ", ".join(dict.fromkeys(node.base for node in plan.left))
    return f"kernels: {kernels}; stays PyTorch: {left or 'nothing'}"


def _seed(brief: Brief) -> tuple[str, str]:
    """Write each group in the structure that its playbook prefers on the target, or leave its anchor to the library.

    What the library is expected to be faster at is left to it where a clock will tell: bounds do not.
    """
    task = brief.task
    graph = graph_of(task)
    timed = brief.baseline.eager_ms is not None
    plan = plan_seed(graph, playbooks(), task.precision, task.target, timed and not task.triton_only)
    kernels = write_kernels(plan, playbooks(), task.precision, task.target)
    whole = make_plan(graph, playbooks()).groups if timed else {}
    expected = expectations(graph, whole, playbooks(), task.precision, task.target)
    told = "".join(f"; {name}: {times}" for name, times in expected.items() if times.library_wins)
    return write_module(task.reference, plan, kernels, {}), _note(plan) + told


def _switch(
    brief: Brief,
    kernel: Candidate,
    choice: tuple[tuple[str, ...], str],
    groups: dict[str, str],
    dropped: tuple[str, ...],
) -> tuple[str, str]:
    """Carry out the analyst's switch; other groups keep their structure, and their knobs unless the names move."""
    names, variant = choice
    if variant == LIBRARY:
        kept = {name: now for name, now in groups.items() if name not in names}
        graph, playbook = graph_of(brief.task), playbook_names(groups)[names[0]]
        return _write(brief, kept, drop_some(graph, playbooks(), dropped, playbook, len(names)), {})
    return _write(brief, {**groups, **dict.fromkeys(names, variant)}, dropped, _other_knobs(kernel, names))


def _other_knobs(kernel: Candidate, names: Iterable[str]) -> dict[str, Knob]:
    """Return the knobs of all groups but these."""
    prefixes = tuple(f"{name}_" for name in names)
    return {k: v for k, v in kernel.config.items() if not k.startswith(prefixes)}


def pointless_repair(brief: Brief) -> str:
    """Return why a broken alternative is left as it is: its remedy takes back the structure that it was to try.

    The kernel that it was made from is right in another one. Empty where a repair may lead somewhere.
    """
    plan = brief.analysis.plan if brief.mode == "repair" and brief.analysis is not None else ""
    choice = read_switch(plan)
    if choice is None or brief.kernel is None or brief.evaluation is None or brief.best is None:
        return ""
    if choose_remedy(brief.evaluation, brief.kernel).action in ("shrink", "spread", "none"):
        return ""
    return f"{', '.join(choice[0])} as {choice[1]} did not come out right; the kernel before it stands"


def _repair(brief: Brief, kernel: Candidate) -> tuple[str, str]:
    """Apply the remedy; where its result was tried before, take the group back to PyTorch."""
    assert brief.evaluation is not None
    groups, dropped = read_plan(kernel.source)
    remedy = choose_remedy(brief.evaluation, kernel)
    tried = {a.candidate.source for a in brief.attempts} | {kernel.source}
    if remedy.action == "none":
        return kernel.source, "unchanged: the kernel is not to blame"
    if remedy.action == "rewrite":
        source, note = _write(brief, {}, (), {})
        if source not in tried:
            return source, note
        groups, dropped = read_plan(source)
        remedy = Remedy("drop", remedy.kind, next(iter(groups)))
    if remedy.action in ("shrink", "spread"):
        source, note = _write(brief, groups, dropped, {**kernel.config, **(remedy.knobs or {})})
        if source not in tried:
            return source, note
    if remedy.action == "plain":
        plainest = {name: variant for name, variant in groups.items() if name != remedy.group}
        source, note = _write(brief, plainest, dropped, _other_knobs(kernel, (remedy.group,)))
        if source not in tried:
            return source, note
    return _write(brief, groups, (*dropped, remedy.group), _other_knobs(kernel, (remedy.group,)))
