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
from egg_graph.expert.playbooks.knobs import power_of_two
from egg_graph.expert.playbooks.playbook import Playbook
from egg_graph.expert.playbooks.survey import survey_of
from egg_graph.schema import Hardware, Precision

REDUCING_OPERATORS = frozenset({
    "softmax", "_softmax", "log_softmax", "_log_softmax", "logsumexp", "linalg_vector_norm", "sum", "mean", "amax",
    "amin", "max", "min", "argmax", "argmin", "var", "std", "var_mean", "cosine_similarity",
})  # fmt: skip
"""Operators that reduce some axis; their names do not tell which."""

REGISTERS = 2**16
"""Registers of one multiprocessor. A tile with more elements cannot be held whole: beyond it every element spills, and
beyond 2^20 elements Triton refuses the tile."""


class AxisPlaybook(Playbook):
    """A reduction along one axis (or one run of axes) with everything elementwise around it."""

    least_beside = 1
    """The least number of elements of another axis in a tile, each with its own reduced axis."""

    variants: tuple[str, ...] = ("looped", "whole")

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
        if group is None:
            return None
        nodes = set(without_last_views(graph, group))
        fits = self.fits(ReductionWriter(graph, frozenset(nodes), space, False, self.name))
        return Group.of(graph, self.name, nodes, "whole" if fits else "looped")

    def structures(self, graph: CapturedGraph, group: Group, target: Hardware | None = None) -> tuple[str, ...]:
        """Return `whole` only where the padded axis can be held at all."""
        return ("looped", "whole") if self._can_be_held(graph, group) else ("looped",)

    def measured(self, graph: CapturedGraph, group: Group, precision: Precision, target: Hardware) -> str:
        """Return the survey: no other structure was faster by more than times scattered there."""
        return survey_of(graph, group, precision, target)

    def _can_be_held(self, graph: CapturedGraph, group: Group) -> bool:
        """Return whether the padded axis fits into a multiprocessor's registers."""
        return power_of_two(self.space(graph, group).reduced[0]) * self.least_beside <= REGISTERS

    def space(self, graph: CapturedGraph, group: Group) -> Space:
        """Return the space that the group's reductions share."""
        return space_of(graph, next(graph[node] for node in group.nodes if is_reduction(graph[node])))

    def writer(self, graph: CapturedGraph, group: Group, name: str) -> ReductionWriter:
        """Make the writer of the group's variant; looped where the axis cannot be held whole."""
        looped = group.variant != "whole" or not self._can_be_held(graph, group)
        return ReductionWriter(graph, frozenset(group.nodes), self.space(graph, group), looped, name)
