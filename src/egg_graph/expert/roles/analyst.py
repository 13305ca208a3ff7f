"""The embedded analyst: how far a kernel is from the hardware's bound, and what is left to try."""

from functools import cache

from egg_graph.expert.capture.process import capture_graph
from egg_graph.expert.codegen.plan import read_plan
from egg_graph.expert.playbooks.planner import drop_some, expectations, make_plan
from egg_graph.expert.playbooks.playbook import LIBRARY, Expected
from egg_graph.expert.playbooks.registry import playbook_names, playbooks, playbooks_by_name
from egg_graph.expert.roles.switch import Switch, read_switch, switches
from egg_graph.schema import Analysis, Attempt, Brief, Candidate, Expectation, StageName

NEAR_THE_BOUND = 1.10
"""Propose no other structure for a kernel within this factor of its roofline bound."""
SWEPT: dict[StageName, tuple[str, Expectation]] = {
    "parallel_mapping": ("warps and work per program", Expectation(metric="occupancy", direction="up")),
    "tensor_tiling": ("block shapes", Expectation(metric="registers", direction="down")),
    "memory_optimization": ("pipelining depth and access", Expectation(metric="milliseconds", direction="down")),
}
"""What each tuning stage sweeps, and the effect to expect where nothing is timed."""


def plan_structure(brief: Brief, kernel: Candidate) -> Analysis:
    """Propose the next untried structure, unless the kernel is already near what the hardware allows."""
    bottleneck, ratio = _bottleneck(brief)
    groups, dropped = read_plan(kernel.source)
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
            root_cause=f"nothing but what {_kernels(groups)} must read and write is moved; no structure moves less",
            principles=_cited(brief, ("fuse_pointwise_chain", "one_read_per_row", "fewer_launches")),
        )
    if library := _library_is_all(brief, dropped):
        return Analysis(worth_optimizing=False, bottleneck=bottleneck, root_cause=library)
    structures = cache(lambda: _structures(brief, groups, dropped))  # plans, which takes a while, where it is asked
    hopeless = _hopeless(brief, groups, dropped)
    for switch in switches(groups):
        if _tried(brief.attempts, switch) or not _promising(brief, switch):
            continue
        if switch.to.variant == LIBRARY:
            possible = _leaves_kernels(brief, groups, dropped, switch)
        else:
            ours = not hopeless.keys() & set(switch.groups)
            possible = ours and all(switch.to.variant in structures().get(name, ()) for name in switch.groups)
        if possible:
            return Analysis(
                worth_optimizing=True,
                bottleneck=bottleneck,
                root_cause=f"{' and '.join(switch.groups)}: written as {switch.now or 'the first structure'}",
                category=switch.to.category,
                plan=switch.sentence(),
                expected=Expectation(metric="milliseconds" if _timed(brief) else "bound_ms", direction="down"),
                principles=_cited(brief, switch.to.principles),
            )
    return Analysis(
        worth_optimizing=False,
        bottleneck=bottleneck,
        root_cause=_told(hopeless) or "no playbook offers a further structure that this evidence speaks for",
    )


def _promising(brief: Brief, switch: Switch) -> bool:
    """Return whether evidence speaks for it: a time beyond the bound, or without a clock spills that it would cure."""
    if _timed(brief):
        return True
    resources = brief.evaluation.resources if brief.evaluation is not None else ()
    spills = any(r.spill_bytes and r.kernel.startswith(switch.groups) for r in resources)
    return spills and switch.to.saves_registers


def _hopeless(brief: Brief, groups: dict[str, str], dropped: tuple[str, ...]) -> dict[str, Expected]:
    """Return the groups that the library is expected to beat in any structure of ours; none without a clock.

    Under `triton_only` there is no library to lose against.
    """
    if not _timed(brief) or brief.task.triton_only:
        return {}
    task = brief.task
    graph = capture_graph(task)
    planned = make_plan(graph, playbooks(), groups, dropped).groups
    times = expectations(graph, planned, playbooks(), task.precision, task.target)
    return {name: expected for name, expected in times.items() if expected.hopeless}


def _told(hopeless: dict[str, Expected]) -> str:
    return "; ".join(f"no structure of ours makes {name} good: {expected}" for name, expected in hopeless.items())


def _library_is_all(brief: Brief, dropped: tuple[str, ...]) -> str:
    """Return, if what was left to the library takes nearly all of the time, a sentence on that; else nothing."""
    evaluation, task = brief.evaluation, brief.task
    if not dropped or evaluation is None or evaluation.timing is None:
        return ""
    graph = capture_graph(task)
    expected = 0.0
    for node in make_plan(graph, playbooks(), None, dropped).left:
        for playbook in playbooks():
            group = playbook.match(graph, node.name, frozenset({node.name}))
            times = playbook.expected(graph, group, task.precision, task.target) if group is not None else None
            expected += times.library_ms if times is not None else 0.0
    ms = evaluation.timing.candidate_ms
    if ms > NEAR_THE_BOUND * expected:
        return ""
    return f"of {ms:.3g} ms the library's product takes about {expected:.3g}; no structure of the rest matters"


def _leaves_kernels(brief: Brief, groups: dict[str, str], dropped: tuple[str, ...], switch: Switch) -> bool:
    """Return whether there is a kernel left to write where these groups' anchors are PyTorch's."""
    if brief.task.triton_only:
        return False
    graph, playbook = capture_graph(brief.task), playbook_names(groups)[switch.groups[0]]
    return bool(
        make_plan(graph, playbooks(), None, drop_some(graph, playbooks(), dropped, playbook, len(switch.groups))).groups
    )


def _structures(brief: Brief, groups: dict[str, str], dropped: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return for each group the structures that can be written and run, at the task's own shape."""
    graph = capture_graph(brief.task)
    known = playbooks_by_name()
    planned = make_plan(graph, playbooks(), groups, dropped).groups
    return {name: known[group.playbook].structures(graph, group, brief.task.target) for name, group in planned.items()}


def _tried(attempts: tuple[Attempt, ...], switch: Switch) -> bool:
    """Return whether an attempt of this stage followed the same plan or had the same structure."""
    for attempt in attempts:
        groups, dropped = read_plan(attempt.candidate.source)
        if read_switch(attempt.candidate.plan) == (switch.groups, switch.to.variant):
            return True
        if all(groups.get(group) == switch.to.variant for group in switch.groups):
            return True
        if switch.to.variant == LIBRARY and set(switch.groups) <= set(dropped):
            return True
    return False


def plan_tuning(brief: Brief, kernel: Candidate) -> Analysis:
    """Propose one sweep if the kernel leaves this stage knobs to turn and the stage has made no attempt yet."""
    bottleneck, _ = _bottleneck(brief)
    knobs = {knob: values for knob, values in kernel.space.get(brief.stage, {}).items() if len(values) > 1}
    if not knobs:
        return Analysis(worth_optimizing=False, bottleneck=bottleneck, root_cause=f"no knob belongs to {brief.stage}")
    if brief.attempts:
        return Analysis(
            worth_optimizing=False, bottleneck=bottleneck, root_cause="the structure stands; only the sweep is left"
        )
    groups, dropped = read_plan(kernel.source)
    hopeless = _hopeless(brief, groups, dropped) if groups else {}
    if hopeless and hopeless.keys() == groups.keys():
        return Analysis(worth_optimizing=False, bottleneck=bottleneck, root_cause=_told(hopeless))
    what, expected = SWEPT[brief.stage]
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
        principles=_cited(brief, tuple(p.id for p in brief.principles)),
    )


def _bottleneck(brief: Brief) -> tuple[str, float | None]:
    """Return where the time goes, in words, and the ratio of time (or bound) to the best possible, None if unknown."""
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
    against = f"{ratio:.2f}x the floor"
    if ratio < 0.995:
        against += ", which counts all inputs, parameters and products; this kernel moves or multiplies fewer"
    return f"{bound.limiter}: bound {bound.milliseconds * 1e3:.4g} µs is {against}", ratio


def _kernels(groups: dict[str, str]) -> str:
    return " and ".join(groups) if len(groups) <= 3 else f"each of {len(groups)} kernels"


def _timed(brief: Brief) -> bool:
    return brief.evaluation is not None and brief.evaluation.timing is not None


def _cited(brief: Brief, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Choose the brief's principles that lead to a plan: those wanted, else the first two about the operators."""
    ids = tuple(p.id for p in brief.principles if p.id in wanted)
    if ids:
        return ids
    operators = brief.baseline.operators
    about = (p.id for p in brief.principles if any(o in op for o in p.operators for op in operators))
    return tuple(about)[:2]
