"""What row and column reductions share: matching, and the choice between a whole and a looped axis."""

from abc import abstractmethod

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.expressions import is_pointwise
from egg_graph.expert.codegen.fusion import is_moving
from egg_graph.expert.codegen.group import Group
from egg_graph.expert.codegen.indexing import Unfusable
from egg_graph.expert.codegen.reduction_kernel import ReductionWriter
from egg_graph.expert.codegen.reductions import Space, is_reduction, space_of
from egg_graph.expert.playbooks.grow import grow, without_last_views
from egg_graph.expert.playbooks.playbook import Playbook

REDUCING_OPERATORS = frozenset({
    "softmax", "_softmax", "log_softmax", "_log_softmax", "logsumexp", "linalg_vector_norm", "sum", "mean", "amax",
    "amin", "max", "min", "argmax", "argmin", "var", "std", "var_mean", "cosine_similarity",
})  # fmt: skip
"""Operators that reduce some axis; their names do not tell which."""


class AxisPlaybook(Playbook):
    """A reduction along one axis (or one run of axes) with everything elementwise around it."""

    variants = ("", "whole", "looped")

    @abstractmethod
    def applies(self, space: Space) -> bool:
        """Return whether a reduction over this space has the playbook's layout."""

    @abstractmethod
    def fits(self, whole: ReductionWriter) -> bool:
        """Return whether the whole axis fits into one program's registers."""

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Grow a group around the reduction at `start`; further reductions join if they reduce the same space."""
        if not is_reduction(graph[start]):
            return None
        try:
            space = space_of(graph, graph[start])
        except Unfusable:
            return None
        if not self.applies(space):
            return None

        def may_join(name: str) -> bool:
            node = graph[name]
            return is_pointwise(node) or is_reduction(node) or is_moving(node, graph)

        def write(nodes: frozenset[str]) -> None:
            for looped in (False, True):
                ReductionWriter(graph, nodes, space, looped, "probe")

        group = grow(graph, [start], free, may_join, write, sibling=lambda name: is_reduction(graph[name]))
        return None if group is None else Group.of(graph, self.name, set(without_last_views(graph, group)))

    def writer(self, graph: CapturedGraph, group: Group, name: str) -> ReductionWriter:
        """Make the writer of the group's variant; without one, whole where that fits and looped elsewhere."""
        reduction = next(graph[node] for node in group.nodes if is_reduction(graph[node]))
        space = space_of(graph, reduction)
        whole = ReductionWriter(graph, frozenset(group.nodes), space, False, name)
        if group.variant == "looped" or (not group.variant and not self.fits(whole)):
            return ReductionWriter(graph, frozenset(group.nodes), space, True, name)
        return whole
