"""Reductions over a dimension before the last, where the reduced axis is strided in memory."""

from dataclasses import astuple

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.folded_kernel import FoldedWriter
from egg_graph.expert.codegen.group import Group, KernelCode, Tuning
from egg_graph.expert.codegen.indexing import Unfusable
from egg_graph.expert.codegen.reduction_kernel import ReductionWriter
from egg_graph.expert.codegen.reductions import Space
from egg_graph.expert.playbooks.axis import REDUCING_OPERATORS, AxisPlaybook
from egg_graph.expert.playbooks.knobs import half_and_double, multiprocessors, nearby, power_of_two
from egg_graph.expert.playbooks.playbook import Alternative
from egg_graph.schema import Hardware, Precision

MOST_STEPS = 1024
"""The longest axis that is held whole in registers, where a looped kernel would read it more than once."""
LONG_AXIS = 256
"""Steps from which on an axis is worth two launches."""


class ColumnPlaybook(AxisPlaybook):
    """A tile of steps x inner elements, with the inner axis across the lanes."""

    name = "column"
    operators = REDUCING_OPERATORS
    guidance = (
        "Reduction over a dimension that is not the last, seen as [outer, steps, inner]: a tile of steps x inner with "
        "the inner axis across the lanes, so that every load is contiguous; the reduction runs down the tile. Up to "
        "1024 steps stay in registers and are read once (64 x 256 with 8 warps was best for RMS norm over 64 "
        "channels on an H200); longer axes are walked, each lane with its own running value. Rows whose length is "
        "no multiple of 4 force 4-byte loads: reduce four steps side by side as one aligned row, then join the four."
    )
    alternatives = (
        Alternative(
            "looped", "algorithm_replacement", "walking the axis needs fewer registers", ("no_spills",),
            saves_registers=True,
        ),
        Alternative(
            "folded", "memory_access", "four steps together begin at 16 bytes where one does not",
            ("fill_the_machine",),
        ),
        Alternative("whole", "algorithm_replacement", "an axis held in registers is read once", ("one_read_per_row",)),
    )  # fmt: skip
    variants = ("looped", "whole", "folded")
    complexity = 4
    least_beside = 16

    def applies(self, space: Space) -> bool:
        """Return whether elements that are not reduced lie between those that are."""
        return not space.is_rows and not space.is_full

    def fits(self, whole: ReductionWriter) -> bool:
        """Hold up to 1024 steps whole where a loop would read them again, else up to 128."""
        steps = power_of_two(whole.space.reduced[0])
        rereads = bool(whole.full) or len(whole.body.levels()) > 1
        return steps <= (MOST_STEPS if rereads else 128)

    def structures(self, graph: CapturedGraph, group: Group, target: Hardware | None = None) -> tuple[str, ...]:
        """Return `folded` where results alone are written, and rows are unaligned or programs too few."""
        found = super().structures(graph, group, target)
        outer, steps, inner = (v[0] for v in astuple(self.space(graph, group)))
        few = outer * -(-inner // 128) < 2 * multiprocessors(target)
        wanted = steps >= LONG_AXIS and (few or (inner % 4 != 0 and steps % 4 == 0))
        return (*found, "folded") if wanted and self._folded(graph, group) is not None else found

    def preferred_variant(self, graph: CapturedGraph, group: Group, precision: Precision, target: Hardware) -> str:
        """Fold where that is possible."""
        return "folded" if "folded" in self.structures(graph, group, target) else group.variant

    def _folded(self, graph: CapturedGraph, group: Group, name: str = "probe") -> FoldedWriter | None:
        """Make the writer that reduces several steps as one aligned row; None where the group cannot be written so."""
        try:
            return FoldedWriter(graph, frozenset(group.nodes), self.space(graph, group), name)
        except Unfusable:
            return None

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write the kernel; its first block leaves every multiprocessor at least two programs where it can."""
        folded = self._folded(graph, group, name) if group.variant == "folded" else None
        if folded is not None:
            return folded.code(_folded_tuning(folded.space, target), "pieces of columns, joined by a second kernel")
        writer = self.writer(graph, group, name)
        machine = multiprocessors(target)
        outer, steps, inner = writer.space.outer[0], power_of_two(writer.space.reduced[0]), writer.space.inner[0]
        aligned = inner % 4 == 0
        most = 16384 if aligned else 4096  # a thread loads unaligned elements one by one, each with its own address
        block = min(256, power_of_two(inner))
        while block > 16 and (not writer.looped and steps * block > most):
            block //= 2
        while block > 16 and outer * -(-inner // block) < 2 * machine:
            block //= 2
        blocks = tuple(b for b in (16, 32, 64, 128, 256, 512) if writer.looped or steps * b <= 32768) or (block,)
        if writer.looped:
            tuning = Tuning(
                {"STEPS": 8, "BLOCK": block, "num_warps": 4, "num_stages": 3 if aligned else 1},
                {
                    "parallel_mapping": {"num_warps": (2, 4, 8)},
                    "tensor_tiling": {"STEPS": (4, 8, 16, 32), "BLOCK": blocks},
                    "memory_optimization": {"num_stages": (1, 2, 3, 4)},
                },
            )
            return writer.code(tuning, "columns walked in blocks")
        warps = max(4, min(16, steps * block // (2048 if aligned else 512)))
        tuning = Tuning(
            {"BLOCK": block, "num_warps": warps},
            {"parallel_mapping": {"num_warps": nearby(warps, (2, 4, 8, 16, 32))}, "tensor_tiling": {"BLOCK": blocks}},
        )
        return writer.code(tuning, "whole columns in registers")


def _folded_tuning(space: Space, target: Hardware | None) -> Tuning:
    """Start at tiles of 8 x 512, and at eight programs a multiprocessor where the axis gives them."""
    outer, steps, inner = space.outer[0], space.reduced[0], space.inner[0]
    lanes = 4 * inner if inner % 4 and steps % 4 == 0 else inner
    block = min(512, power_of_two(lanes))
    rows = min(32, 4096 // block, power_of_two(-(-steps // 16)))
    programs = outer * -(-lanes // block)
    pieces = power_of_two(max(1, 8 * multiprocessors(target) // programs))
    while pieces > 1 and pieces * 4 * rows > steps:
        pieces //= 2
    return Tuning(
        {"STEPS": rows, "BLOCK": block, "PIECES": pieces, "num_warps": 4, "num_stages": 3},
        {
            "parallel_mapping": {"num_warps": (2, 4, 8), "PIECES": half_and_double(pieces, 1, 1024)},
            "tensor_tiling": {"STEPS": half_and_double(rows, 2, 32), "BLOCK": half_and_double(block, 16, 1024)},
            "memory_optimization": {"num_stages": (1, 2, 3, 4)},
        },
    )
