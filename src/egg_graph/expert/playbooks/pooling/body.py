"""Elementwise work around a pooling: what is the same for a whole plane, line or column is computed once for it."""

from math import prod

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.fusion import Body
from egg_graph.expert.codegen.indexing import OFFSETS, Index, Run, Unfusable, merged
from egg_graph.expert.playbooks.pooling.match import Pooling
from egg_graph.expert.playbooks.pooling.spans import MOST_HELD, Span, Taps

PLANES = Index("planes", "plane_mask")
"""One number for each plane of the tile's lines: what is not spatial, an index into the leading dimensions."""


def tap(part: str) -> Index:
    """Return the index of the input's elements that one part of the tile reads."""
    return Index(f"at{part}", f"inside{part}", tile=True)


class PoolBody(Body):
    """Statements ahead of the pooling, for each part of a tile's columns, and behind it."""

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str], pooling: Pooling, span: Span) -> None:
        super().__init__(graph, nodes)
        self.pooling, self.span = pooling, span
        axes = [f"{name}{axis}" for name in ("", "from_", "in_", "i_") for axis in "dhw"]
        per_part = [f"{n}{p}" for n in ("at", "inside", "in_w", "reach", "part") for p in span.parts]
        own = ["planes", "plane_mask", "rows_mask", "row", "row_d", "row_mask_d", "begin", "lane", "even", "odd"]
        numbers = [f"number_at_{n}" for n in range(MOST_HELD)]
        outputs = [f"pool_{n}" for n in range(span.outputs)]
        self.reserve(["pool", "plane", "lines", "line_mask", *own, *axes, *per_part, *numbers, *outputs])

    def reduce(self, node: Node, index: Index) -> str:
        if node.name != self.pooling.node.name or index != OFFSETS:
            raise Unfusable(f"{node.op} is no elementwise operator at its own place")
        return "pool"

    def project_special(self, pattern: tuple[Run, ...], index: Index) -> Index | None:
        """Return the index by plane, line or column of an operand that changes with nothing else."""
        part = next((p for p in self.span.parts if tap(p) == index), None)
        if part is None:
            return None
        source = self.graph[self.pooling.x]
        planes = tuple(prod(shape[-self.pooling.rank :]) for shape in source.shapes)
        lines = source.size(source.rank - 1)
        kept, size = pattern[-1]
        if not kept:
            for apart, place in ((planes, PLANES), (lines, Index("rows", "rows_mask", tile=True))):
                if all(s % a == 0 for s, a in zip(size, apart, strict=True)):
                    outer = tuple(s // a for s, a in zip(size, apart, strict=True))
                    rest = merged([*pattern[:-1], (False, outer)])
                    return place if all(k for k, _ in rest) else self._decode(rest, place)
            return None
        if size == lines and not any(k for k, _ in pattern[:-1]):
            return Index(f"in_w{part}", f"reach{part}", tile=isinstance(self.span, Taps))
        return None
