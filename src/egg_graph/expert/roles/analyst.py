"""The embedded analyst: how far a kernel is from the hardware's bound, and what is left to try."""

from collections.abc import Mapping

from egg_graph.expert.codegen.plan import read_plan
from egg_graph.expert.playbooks.playbook import LIBRARY, Expected
from egg_graph.expert.roles.prospects import Prospects
from egg_graph.expert.roles.switch import Switch, read_switch, switches
from egg_graph.schema import Analysis, Attempt, Brief, Candidate, Expectation, StageName

NEAR_THE_BOUND = 1.10
"""Propose no other structure for a kernel within this factor of its roofline bound."""
MOST_ALTERNATIVES = 1
"""Other structures that a run tries at most: each costs an evaluation."""
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
    prospects = Prospects(brief.task, groups, dropped, _timed(brief))
    if library := _library_is_all(brief, prospects):
        return Analysis(worth_optimizing=False, bottleneck=bottleneck, root_cause=library)
    switch = _next_switch(brief, prospects)
    if switch is None:
        told = _told(prospects.hopeless) or _no_more(brief, prospects)
        return Analysis(worth_optimizing=False, bottleneck=bottleneck, root_cause=told)
    return Analysis(
        worth_optimizing=True,
        bottleneck=bottleneck,
        root_cause=f"{' and '.join(switch.groups)}: written as {switch.now or 'the first structure'}",
        category=switch.to.category,
        plan=switch.sentence(),
        expected=Expectation(metric="milliseconds" if _timed(brief) else "bound_ms", direction="down"),
        principles=_cited(brief, switch.to.principles),
    )


def _next_switch(brief: Brief, prospects: Prospects) -> Switch | None:
    """Choose the next structure that is worth an evaluation; None where as many were tried as a run tries."""
    if _alternatives(brief) >= MOST_ALTERNATIVES:
        return None
    for switch in switches(prospects.groups):
        if not _tried(brief.attempts, switch) and _promising(brief, switch) and prospects.may_pay(switch):
            return switch
    return None


def _alternatives(brief: Brief) -> int:
    """Count the other structures that this stage has tried."""
    return sum(attempt.candidate.mode == "optimize" for attempt in brief.attempts)


def _no_more(brief: Brief, prospects: Prospects) -> str:
    """Tell why no other structure is tried."""
    if _alternatives(brief) >= MOST_ALTERNATIVES:
        return "another structure was tried; the playbooks' order says that the rest are less likely to pay"
    if prospects.settled:
        where = dict.fromkeys(prospects.settled.values())
        names = _kernels({name: prospects.groups[name] for name in prospects.settled})
        return f"the structure of {names} was the fastest for others like it ({', '.join(where)})"
    return "no playbook offers a further structure that this evidence speaks for"


def _promising(brief: Brief, switch: Switch) -> bool:
    """Return whether evidence speaks for it: a time beyond the bound, or without a clock spills that it would cure."""
    if _timed(brief):
        return True
    resources = brief.evaluation.resources if brief.evaluation is not None else ()
    spills = any(r.spill_bytes and r.kernel.startswith(switch.groups) for r in resources)
    return spills and switch.to.saves_registers


def _told(hopeless: Mapping[str, Expected]) -> str:
    return "; ".join(f"no structure of ours makes {name} good: {expected}" for name, expected in hopeless.items())


def _library_is_all(brief: Brief, prospects: Prospects) -> str:
    """Return, if what was left to the library takes nearly all of the time, a sentence on that; else nothing."""
    evaluation = brief.evaluation
    if not prospects.dropped or evaluation is None or evaluation.timing is None:
        return ""
    ms, expected = evaluation.timing.candidate_ms, prospects.library_ms()
    if ms > NEAR_THE_BOUND * expected:
        return ""
    return f"of {ms:.3g} ms the library's product takes about {expected:.3g}; no structure of the rest matters"


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
    if knobs.keys() <= {knob for sweep in brief.sweeps if sweep.stage != brief.stage for knob in sweep.knobs}:
        return Analysis(
            worth_optimizing=False,
            bottleneck=bottleneck,
            root_cause="all knobs were swept together in an earlier stage",
        )
    groups, dropped = read_plan(kernel.source)
    hopeless = Prospects(brief.task, groups, dropped, _timed(brief)).hopeless if groups else {}
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


def _kernels(groups: Mapping[str, str]) -> str:
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
