"""Split a graph into groups, one kernel each, and have the playbooks write them.

Greedy: playbooks in order of precedence claim an anchor with its prologue and epilogue; elementwise chains come last.
"""

from collections.abc import Iterable, Mapping, Sequence

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.group import Group, KernelCode
from egg_graph.expert.codegen.plan import Plan
from egg_graph.expert.playbooks.playbook import Expected, Playbook
from egg_graph.schema import Hardware, Precision


def make_plan(
    graph: CapturedGraph,
    playbooks: Sequence[Playbook],
    variants: Mapping[str, str] | None = None,
    drop: Iterable[str] = (),
) -> Plan:
    """Group the graph's nodes.

    Args:
        graph: The captured reference.
        playbooks: In order of precedence.
        variants: Structure by group name, where it is not the one that `Playbook.match` chose.
        drop: Names of groups that stay PyTorch. They are dropped in this order, and each name belongs to the plan
            that the drops before it left.
    """
    rejected: list[Group] = []
    groups = _matched(graph, playbooks, rejected)
    dropped = []
    for name in drop:
        if name in groups:
            rejected.append(groups[name])
            groups = _matched(graph, playbooks, rejected)
            dropped.append(name)
    chosen = variants or {}
    named = {n: Group.of(graph, g.playbook, g.nodes, chosen.get(n) or g.variant) for n, g in groups.items()}
    return Plan(graph, named, tuple(dropped))


def plan_seed(
    graph: CapturedGraph, playbooks: Sequence[Playbook], precision: Precision, target: Hardware, library: bool = True
) -> Plan:
    """Group the graph's nodes for a first kernel: each group in the structure that its playbook prefers on the target.

    A group whose anchor the library is expected to be faster at is left to it, and the rest is planned again, so that
    other playbooks take its tail. Where nothing would be left to write, our own kernel is written.

    Args:
        graph: The captured reference.
        playbooks: In order of precedence.
        precision: The task's precision policy.
        target: The GPU.
        library: Whether anything may be left to the library.
    """
    known = {playbook.name: playbook for playbook in playbooks}
    plan = make_plan(graph, playbooks)
    kept: set[str] = set()
    while library:
        times = expectations(graph, plan.groups, playbooks, precision, target)
        losing = (name for name, expected in times.items() if expected.library_wins)
        slower = next((name for name in losing if not kept & set(plan.groups[name].nodes)), None)
        if slower is None:
            break
        without = make_plan(graph, playbooks, None, (*plan.dropped, slower))
        if without.groups:
            plan = without
        else:
            kept |= set(plan.groups[slower].nodes)
    preferred = {
        name: known[group.playbook].preferred_variant(graph, group, precision, target)
        for name, group in plan.groups.items()
    }
    return make_plan(graph, playbooks, preferred, plan.dropped)


def expectations(
    graph: CapturedGraph,
    groups: Mapping[str, Group],
    playbooks: Sequence[Playbook],
    precision: Precision,
    target: Hardware,
) -> dict[str, Expected]:
    """Return what the library and our kernel take for each of these groups, by name, where that was measured."""
    known = {playbook.name: playbook for playbook in playbooks}
    found = {n: known[g.playbook].expected(graph, g, precision, target) for n, g in groups.items()}
    return {name: expected for name, expected in found.items() if expected is not None}


def drop_some(
    graph: CapturedGraph, playbooks: Sequence[Playbook], dropped: tuple[str, ...], playbook: str, count: int
) -> tuple[str, ...]:
    """Drop so many groups of a playbook more, by the names they have once those before them are gone."""
    for _ in range(count):
        groups = make_plan(graph, playbooks, None, dropped).groups
        dropped = (*dropped, next(name for name, group in groups.items() if group.playbook == playbook))
    return dropped


def write_kernels(
    plan: Plan, playbooks: Sequence[Playbook], precision: Precision, target: Hardware | None = None
) -> dict[str, KernelCode]:
    """Write the source of every group, by the group's name. See `Playbook.write`."""
    by_name = {playbook.name: playbook for playbook in playbooks}
    return {
        name: by_name[group.playbook].write(plan.graph, group, name, precision, target)
        for name, group in plan.groups.items()
    }


def _matched(graph: CapturedGraph, playbooks: Sequence[Playbook], rejected: list[Group]) -> dict[str, Group]:
    """Match all playbooks. Where its group was rejected, a playbook gets no second try; the others do."""
    free = frozenset(node.name for node in graph.nodes)
    found: list[Group] = []
    for playbook in playbooks:
        refused = {n for group in rejected if group.playbook == playbook.name for n in group.nodes}
        for node in graph.nodes:
            if node.name not in free or (group := playbook.match(graph, node.name, free)) is None:
                continue
            if refused & set(group.nodes) or _newest_waits_for_itself([*found, group], graph):
                continue
            found.append(group)
            free -= set(group.nodes)
    found.sort(key=lambda group: graph.position[group.nodes[-1]])
    return _named(found)


def _named(groups: list[Group]) -> dict[str, Group]:
    """Name each group after its playbook, numbered where it has several: `row`, `pointwise_1`, `pointwise_2`."""
    count: dict[str, int] = {}
    for group in groups:
        count[group.playbook] = count.get(group.playbook, 0) + 1
    seen: dict[str, int] = {}
    named = {}
    for group in groups:
        seen[group.playbook] = seen.get(group.playbook, 0) + 1
        several = count[group.playbook] > 1
        named[f"{group.playbook}_{seen[group.playbook]}" if several else group.playbook] = group
    return named


def _newest_waits_for_itself(groups: list[Group], graph: CapturedGraph) -> bool:
    """Return whether the last group depends on itself through other groups, each of which is convex alone."""
    owner = {name: i for i, group in enumerate(groups) for name in group.nodes}
    given = {p.name for p in graph.placeholders}
    waits: dict[int | str, set[int | str]] = {}
    for node in graph.nodes:
        mine = owner.get(node.name, node.name)
        for name in graph.inputs[node.name]:
            if name not in given and (other := owner.get(name, name)) != mine:
                waits.setdefault(mine, set()).add(other)
    newest = len(groups) - 1
    reached: set[int | str] = set()
    frontier: list[int | str] = list(waits.get(newest, ()))
    while frontier:
        unit = frontier.pop()
        if unit == newest:
            return True
        if unit not in reached:
            reached.add(unit)
            frontier.extend(waits.get(unit, ()))
    return False
