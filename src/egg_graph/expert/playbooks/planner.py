"""Split a graph into groups, one kernel each. Greedy: anchors first (they claim prologue and epilogue), chains last."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.fusion import is_moving
from egg_graph.expert.playbooks.playbook import Group, Playbook


@dataclass(frozen=True)
class Plan:
    """Which kernels the module gets, by name, and what stays PyTorch."""

    graph: CapturedGraph
    groups: Mapping[str, Group]
    """In execution order. The name prefixes the kernel's functions and knobs."""
    dropped: tuple[str, ...] = ()
    """Groups that could have had a kernel and were told to stay PyTorch."""

    @property
    def left(self) -> tuple[Node, ...]:
        """Operators that stay PyTorch, without those that only move or rename elements."""
        taken = {n for group in self.groups.values() for n in group.nodes}
        return tuple(n for n in self.graph.nodes if n.name not in taken and not is_moving(n, self.graph))


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
        variants: Structural alternative by group name, where not the playbook's first.
        drop: Names of groups that stay PyTorch.
    """
    rejected: list[Group] = []
    groups = _matched(graph, playbooks, rejected)
    dropped = []
    for name in drop:  # in order: a name belongs to the plan that the drops before it left
        if name in groups:
            rejected.append(groups[name])
            groups = _matched(graph, playbooks, rejected)
            dropped.append(name)
    chosen = variants or {}
    named = {n: Group.of(graph, g.playbook, g.nodes, chosen.get(n, g.variant)) for n, g in groups.items()}
    return Plan(graph, named, tuple(dropped))


def _matched(graph: CapturedGraph, playbooks: Sequence[Playbook], rejected: list[Group]) -> dict[str, Group]:
    """Groups by name. A playbook gets no second try at nodes where its group was rejected; the others do."""
    free = frozenset(node.name for node in graph.nodes)
    found: list[Group] = []
    for playbook in playbooks:
        refused = {n for group in rejected if group.playbook == playbook.name for n in group.nodes}
        for node in graph.nodes:
            if node.name not in free or (group := playbook.match(graph, node.name, free)) is None:
                continue
            if refused & set(group.nodes) or _tangles([*found, group], graph):
                continue
            found.append(group)
            free -= set(group.nodes)
    found.sort(key=lambda group: graph.position[group.nodes[-1]])
    return _named(found)


def _named(groups: list[Group]) -> dict[str, Group]:
    """`softmax`, or `pointwise_1`, `pointwise_2` where there are several of a kind."""
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


def execution_order(plan: Plan) -> list[Group | Node]:
    """Groups and single nodes in an order in which each one's operands come before it."""
    graph = plan.graph
    unit_of: dict[str, Group | Node] = {}
    for group in plan.groups.values():
        unit_of.update(dict.fromkeys(group.nodes, group))
    units: list[Group | Node] = []
    seen: set[int] = set()

    def visit(unit: Group | Node) -> None:
        if id(unit) in seen:
            return
        seen.add(id(unit))
        for name in unit.inputs:
            if not graph.is_placeholder(name):
                visit(unit_of.get(name, graph[name]))
        units.append(unit)

    for node in graph.nodes:
        visit(unit_of.get(node.name, node))
    return units


def _tangles(groups: list[Group], graph: CapturedGraph) -> bool:
    """Whether two groups wait for each other: each is convex alone, together they may not be."""
    owner = {name: i for i, group in enumerate(groups) for name in group.nodes}
    waits: dict[int | str, set[int | str]] = {}
    for node in graph.nodes:
        mine = owner.get(node.name, node.name)
        for name in node.inputs:
            if not graph.is_placeholder(name) and (other := owner.get(name, name)) != mine:
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
