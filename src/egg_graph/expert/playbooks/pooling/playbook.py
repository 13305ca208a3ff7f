"""Max and average pooling in one to three dimensions, with elementwise work behind it."""

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.expressions import is_pointwise
from egg_graph.expert.codegen.fusion import is_flat_view
from egg_graph.expert.codegen.group import Group, KernelCode
from egg_graph.expert.playbooks.grow import grow, without_last_views
from egg_graph.expert.playbooks.playbook import Playbook
from egg_graph.expert.playbooks.pooling.averaged_filter import averaged_filter_at, write_averaged_filter
from egg_graph.expert.playbooks.pooling.match import RANKS, Pooling, pooling_at
from egg_graph.expert.playbooks.pooling.rolling import RollingWriter, rolls
from egg_graph.expert.playbooks.pooling.writer import PoolingWriter
from egg_graph.schema import Hardware, Precision


class PoolingPlaybook(Playbook):
    """Max and average pooling, then any pointwise chain over the result, in one kernel. Indices stay PyTorch."""

    name = "pooling"
    operators = frozenset(RANKS)
    guidance = (
        "Pooling: memory-bound. A program computes output lines x columns: join a window's rows number by number, "
        "then along the last dimension. Windows one element apart: walk down 16 output rows, join each input row along "
        "the last dimension once, keep the window's last rows in registers. Where rows begin at 16 bytes and the "
        "stride is 2 or 4, a lane reads aligned blocks of four and computes all outputs they cover. "
        "Windows apart and unaligned: as many lanes as the window is wide, reduced at the end. Maximum starts "
        "at minus infinity and lets NaN through; a mean divides by padded places too unless told otherwise. Fuse what "
        "follows; elementwise work ahead only where windows do not overlap."
    )
    complexity = 4
    shared_memory_knobs = ("BLOCK", "LINES")
    register_knobs = ("LINES", "BLOCK", "RUN")

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Grow a group around the pooling at `start`; where it averages a filter, take what turns and pads that."""
        averaged = averaged_filter_at(graph, start)
        if averaged is not None and set(averaged.nodes) <= free:
            return Group.of(graph, self.name, set(averaged.nodes))
        pooling = pooling_at(graph, start)
        if pooling is None:
            return None
        writer = _writer(pooling)

        def may_join(name: str) -> bool:
            ahead = graph.position[name] < graph.position[start]
            return (is_pointwise(graph[name]) or is_flat_view(graph[name])) and (pooling.is_partition or not ahead)

        group = grow(graph, [start], free, may_join, lambda nodes: writer(graph, nodes, "probe"))
        return None if group is None else Group.of(graph, self.name, set(without_last_views(graph, group)))

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write kernel and wrapper. Sums are in fp32."""
        averaged = averaged_filter_at(graph, group.nodes[-1])
        if averaged is not None and set(averaged.nodes) == set(group.nodes):
            return write_averaged_filter(averaged, name)
        pooling = next(p for p in (pooling_at(graph, n) for n in group.nodes) if p is not None)
        return _writer(pooling)(graph, frozenset(group.nodes), name).code(target)


def _writer(pooling: Pooling) -> type[PoolingWriter]:
    return RollingWriter if rolls(pooling) else PoolingWriter
