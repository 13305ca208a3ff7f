"""Reductions along an axis with everything elementwise around them: softmax, norms, row statistics, picks."""

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.expressions import is_pointwise
from egg_graph.expert.codegen.fusion import is_moving
from egg_graph.expert.codegen.indexing import Unfusable
from egg_graph.expert.codegen.reduction_kernel import ReductionWriter, Tuning, grouped, reductions_in
from egg_graph.expert.codegen.reductions import Space, is_reduction, space_of
from egg_graph.expert.playbooks.grow import grow
from egg_graph.expert.playbooks.playbook import Group, KernelCode
from egg_graph.schema import Hardware, Precision

WHOLE_ROW = 32768
"""Elements of a row, over all tensors read, that fit into one program's registers (64 a thread at 16 warps)."""
WHOLE_COLUMN = 1024


class _Axis:
    """Matching, shared by the two layouts."""

    name: str
    variants = ("", "whole", "looped")

    def applies(self, space: Space) -> bool:
        raise NotImplementedError

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
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
        return None if group is None else grouped(graph, self.name, group)

    def writer(self, graph: CapturedGraph, group: Group, name: str) -> ReductionWriter:
        space = space_of(graph, graph[reductions_in(graph, group.nodes)[0]])
        whole = ReductionWriter(graph, frozenset(group.nodes), space, False, name)
        if group.variant == "looped" or (not group.variant and not self.fits(whole)):
            return ReductionWriter(graph, frozenset(group.nodes), space, True, name)
        return whole

    def fits(self, whole: ReductionWriter) -> bool:
        raise NotImplementedError


class Row(_Axis):
    """The reduced axis is contiguous."""

    name = "row"
    guidance = (
        "Row reduction (softmax, layer norm, RMS norm, logsumexp, row statistics): one program holds one or several "
        "whole rows in registers, so that each element is read once; 16 to 64 elements a thread, several rows a "
        "program where rows are short. A row beyond 32768 elements is walked in blocks: online softmax (running "
        "maximum and rescaled sum) and Welford need one pass fewer; pipeline the loop (2 to 4 stages). Fuse the "
        "elementwise prologue and epilogue. On an H200 every sane tile is within 1 %; evict_first cost 3 %."
    )

    def applies(self, space: Space) -> bool:
        return space.is_rows

    def fits(self, whole: ReductionWriter) -> bool:
        padded = _power_of_two(whole.space.reduced[0])
        operands = sum(whole.graph[r].numel == whole.space.numel for r in whole.body.roots)
        return padded * max(1, operands) <= WHOLE_ROW

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        writer = self.writer(graph, group, name)
        machine = multiprocessors(target)
        rows, cols = writer.space.outer[0], writer.space.reduced[0]
        if writer.looped:
            tuning = Tuning(
                {"ROWS": 1, "BLOCK": min(4096, _power_of_two(cols)), "num_warps": 8, "num_stages": 3},
                {
                    "parallel_mapping": {"num_warps": (4, 8, 16), "ROWS": (1, 2)},
                    "tensor_tiling": {"BLOCK": (1024, 2048, 4096, 8192)},
                    "memory_optimization": {"num_stages": (1, 2, 3, 4)},
                },
            )
            return writer.code(tuning, "rows walked in blocks")
        block = _power_of_two(cols)
        several = 1
        while several * block < 2048 and rows // (2 * several) >= 4 * machine:
            several *= 2
        warps = max(1 if several * block <= 512 else 4, min(16, several * block // 1024))
        tuning = Tuning(
            {"ROWS": several, "num_warps": warps},
            {
                "parallel_mapping": {"num_warps": _near(warps, (1, 2, 4, 8, 16, 32))},
                "tensor_tiling": {"ROWS": tuple(r for r in (1, 2, 4, 8, 16) if r * block <= 16384) or (1,)},
            },
        )
        return writer.code(tuning, "whole rows in registers")


class Column(_Axis):
    """The reduced axis is strided: a dimension before the last."""

    name = "column"
    guidance = (
        "Reduction over a dimension that is not the last, seen as [outer, steps, inner]: a tile of steps x inner with "
        "the inner axis across the lanes, so that every load is contiguous; the reduction runs down the tile. Up to "
        "1024 steps stay in registers and are read once (64 x 256 with 8 warps was best for RMS norm over 64 "
        "channels on an H200); longer axes are walked, each lane with its own running value. Rows whose length is "
        "no multiple of 4 force 4-byte loads."
    )

    def applies(self, space: Space) -> bool:
        return not space.is_rows and not space.is_full

    def fits(self, whole: ReductionWriter) -> bool:
        steps = _power_of_two(whole.space.reduced[0])
        rereads = bool(whole.full) or len(whole.body.levels()) > 1
        return steps <= (WHOLE_COLUMN if rereads else 64)

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        writer = self.writer(graph, group, name)
        machine = multiprocessors(target)
        outer, steps, inner = writer.space.outer[0], _power_of_two(writer.space.reduced[0]), writer.space.inner[0]
        block = min(256, _power_of_two(inner)) if not writer.looped else min(128, _power_of_two(inner))
        while block > 16 and (not writer.looped and steps * block > 16384):
            block //= 2
        while block > 16 and outer * -(-inner // block) < 2 * machine:
            block //= 2
        blocks = tuple(b for b in (16, 32, 64, 128, 256, 512) if writer.looped or steps * b <= 32768) or (block,)
        if writer.looped:
            tuning = Tuning(
                {"STEPS": 32, "BLOCK": block, "num_warps": 4, "num_stages": 3},
                {
                    "parallel_mapping": {"num_warps": (2, 4, 8)},
                    "tensor_tiling": {"STEPS": (8, 16, 32, 64), "BLOCK": blocks},
                    "memory_optimization": {"num_stages": (1, 2, 3, 4)},
                },
            )
            return writer.code(tuning, "columns walked in blocks")
        warps = max(4, min(16, steps * block // 2048))
        tuning = Tuning(
            {"BLOCK": block, "num_warps": warps},
            {"parallel_mapping": {"num_warps": _near(warps, (2, 4, 8, 16, 32))}, "tensor_tiling": {"BLOCK": blocks}},
        )
        return writer.code(tuning, "whole columns in registers")


def multiprocessors(target: Hardware | None) -> int:
    """Of the target; an H200's where none is given."""
    return 132 if target is None else int(target.figure("multiprocessors"))


def _power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _near(value: int, choices: tuple[int, ...]) -> tuple[int, ...]:
    """A choice and its neighbours on both sides."""
    return tuple(c for c in choices if value // 4 <= c <= value * 4)
