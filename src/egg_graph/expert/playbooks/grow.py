"""Grow a group greedily: neighbours join for as long as the whole still makes one kernel."""

from collections.abc import Callable, Iterable

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.indexing import Unfusable

MAX_OPERANDS = 10
"""The most tensors that one kernel reads. Beyond it registers and cache lines become the bottleneck."""


def grow(
    graph: CapturedGraph,
    seed: Iterable[str],
    free: frozenset[str],
    may_join: Callable[[str], bool],
    write: Callable[[frozenset[str]], object],
    sibling: Callable[[str], bool] = lambda name: False,
) -> frozenset[str] | None:
    """Find the largest group around a seed that `write` can write: add consumers, then producers, then siblings.

    Args:
        graph: The captured graph.
        seed: Nodes that must be in the group.
        free: Nodes that no other group has.
        may_join: A cheap test of a single node.
        write: Writes the kernel for a set of nodes, or raises Unfusable.
        sibling: Returns whether a node that reads the same large tensor should share its load.

    Returns:
        None where not even the seed can be written.
    """
    group = frozenset(seed)
    if not _writable(graph, group, write):
        return None
    refused: set[tuple[frozenset[str], str]] = set()
    grown = True
    while grown:
        grown = False
        beside = (name for name in _siblings(graph, group) if sibling(name))
        for name in (*_consumers(graph, group), *_producers(graph, group), *beside):
            if name in group or name not in free or not may_join(name) or (group, name) in refused:
                continue
            wider = _with_operands(graph, group | {name}, free, may_join)
            found = next((g for g in (wider, group | {name}) if _writable(graph, g, write)), None)
            if found is None:
                refused.add((group, name))
            else:
                group, grown = found, True
    return group


def without_last_views(graph: CapturedGraph, group: frozenset[str]) -> frozenset[str]:
    """Drop the views at the group's end: outside the kernel they cost nothing."""
    while True:
        last = [n for n in graph.writes(group) if graph[n].base in ("view", "unsqueeze", "reshape", "expand")]
        if not last:
            return group
        group = group - set(last)


def _writable(graph: CapturedGraph, group: frozenset[str], write: Callable[[frozenset[str]], object]) -> bool:
    if len(graph.reads(group)) > MAX_OPERANDS or not graph.is_convex(group):
        return False
    try:
        write(group)
    except Unfusable:
        return False
    return True


def _consumers(graph: CapturedGraph, group: frozenset[str]) -> tuple[str, ...]:
    return graph.ordered(user for name in group for user in graph.users[name])


def _producers(graph: CapturedGraph, group: frozenset[str]) -> tuple[str, ...]:
    """Producers, nearest first. The kernel stores one that others need too, so that it is not read again."""
    return tuple(reversed([n for n in graph.reads(group) if not graph.is_placeholder(n)]))


def _siblings(graph: CapturedGraph, group: frozenset[str]) -> tuple[str, ...]:
    """Return the other readers of the largest tensors that the group reads."""
    reads = graph.reads(group)
    largest = max((max(graph[n].numel, default=0) for n in reads), default=0)
    return graph.ordered(u for n in reads if max(graph[n].numel, default=0) == largest for u in graph.users[n])


def _with_operands(
    graph: CapturedGraph, group: frozenset[str], free: frozenset[str], may_join: Callable[[str], bool]
) -> frozenset[str]:
    """Add the small private computations (a view of a weight, say) that feed the group."""
    for name in _producers(graph, group):
        private = set(graph.users[name]) <= group and name not in graph.returned
        if private and name in free and may_join(name) and all(graph.is_placeholder(i) for i in graph[name].inputs):
            group = group | {name}
    return group
