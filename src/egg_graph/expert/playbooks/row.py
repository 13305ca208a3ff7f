"""Reductions over the last dimension: softmax, norms, row statistics, picks."""

from dataclasses import replace

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.group import Group, KernelCode, Tuning
from egg_graph.expert.codegen.indexing import Unfusable
from egg_graph.expert.codegen.reduction_kernel import ReductionWriter
from egg_graph.expert.codegen.reductions import Space
from egg_graph.expert.codegen.split_kernel import SplitWriter
from egg_graph.expert.playbooks.axis import REDUCING_OPERATORS, AxisPlaybook
from egg_graph.expert.playbooks.knobs import half_and_double, multiprocessors, nearby, power_of_two
from egg_graph.expert.playbooks.playbook import Alternative
from egg_graph.schema import Hardware, Precision

MOST_ELEMENTS = 32768
"""Elements, over all tensors read, that fit into one program's registers (64 a thread at 16 warps)."""

SHORT_ROW = 4096
"""Elements up to which a row that fits is always held: a program that walks it has nothing to overlap."""
FEW_ROWS = 8
"""Rows for each multiprocessor below which whole rows leave multiprocessors idle, at least in the last round."""
LONG_ROW = 2**14
"""Elements from which on a row is worth two launches."""
MOST_PROGRAMS = 64
"""Pieces of rows for each multiprocessor beyond which none gets another."""


class RowPlaybook(AxisPlaybook):
    """One or several whole rows per program, or a long row walked in blocks."""

    name = "row"
    operators = REDUCING_OPERATORS | {
        "layer_norm", "native_layer_norm", "rms_norm", "group_norm", "native_group_norm", "instance_norm",
        "cross_entropy_loss", "nll_loss_nd", "nll_loss_forward",
    }  # fmt: skip
    guidance = (
        "Row reduction (softmax, layer norm, RMS norm, logsumexp, row statistics): one program holds one or several "
        "whole rows in registers, so that each element is read once; 16 to 64 elements a thread, several rows a "
        "program where rows are short. A row beyond 32768 elements is walked in blocks: online softmax and Welford "
        "need one pass fewer; pipeline the loop (2 to 4 stages). Long rows, fewer than the machine wants: "
        "cut each into pieces, join their partial results in a second kernel. Weights of channels (group norm): keep "
        "each tile inside one channel and load its weight once; pipelined gathers, one an element, made group norm "
        "four times as slow. On an H200 evict_first is slower."
    )
    alternatives = (
        Alternative(
            "looped", "algorithm_replacement",
            "walking the row in blocks with running statistics needs fewer registers",
            ("online_softmax", "no_spills"), saves_registers=True,
        ),
        Alternative(
            "split", "parallel_mapping", "pieces of a few long rows keep every multiprocessor busy",
            ("fill_the_machine",),
        ),
        Alternative("whole", "algorithm_replacement", "a row held in registers is read once", ("one_read_per_row",)),
    )  # fmt: skip
    variants = ("looped", "whole", "split")
    complexity = 3

    def applies(self, space: Space) -> bool:
        """Return whether the reduced elements lie next to each other."""
        return space.is_rows

    def fits(self, whole: ReductionWriter) -> bool:
        """Count one padded row of every tensor of full size that the kernel reads."""
        padded = power_of_two(whole.space.reduced[0])
        operands = sum(whole.graph[r].numel == whole.space.numel for r in whole.body.roots)
        return padded * max(1, operands) <= MOST_ELEMENTS

    def structures(self, graph: CapturedGraph, group: Group, target: Hardware | None = None) -> tuple[str, ...]:
        """Return `split` only where rows are long and too few to give every multiprocessor several; no walk of a short
        row."""
        found = super().structures(graph, group, target)
        space = self.space(graph, group)
        if space.reduced[0] <= SHORT_ROW and self.fits(self.writer(graph, replace(group, variant="whole"), self.name)):
            return ("whole",)
        machine = multiprocessors(target)
        few = space.outer[0] < FEW_ROWS * machine and space.reduced[0] >= LONG_ROW
        several = few and _split_tuning(space, machine).config["PIECES"] != 1
        return (*found, "split") if several and self._split(graph, group) is not None else found

    def preferred_variant(self, graph: CapturedGraph, group: Group, precision: Precision, target: Hardware) -> str:
        """Split rows that would be walked by too few programs; a row in registers is read once, which nothing beats."""
        splits = group.variant == "looped" and "split" in self.structures(graph, group, target)
        return "split" if splits else group.variant

    def _split(self, graph: CapturedGraph, group: Group, name: str = "probe") -> SplitWriter | None:
        """Make the writer that reduces pieces of rows apart; None where they cannot be joined."""
        try:
            return SplitWriter(graph, frozenset(group.nodes), self.space(graph, group), name)
        except Unfusable:
            return None

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write the kernel; short rows share a program while every multiprocessor keeps four programs."""
        machine = multiprocessors(target)
        split = self._split(graph, group, name) if group.variant == "split" else None
        if split is not None:
            return split.code(_split_tuning(split.space, machine), "rows cut into pieces, joined by a second kernel")
        writer = self.writer(graph, group, name)
        rows, cols = writer.space.outer[0], writer.space.reduced[0]
        if writer.looped:
            tuning = Tuning(
                {"ROWS": 1, "BLOCK": min(4096, power_of_two(cols)), "num_warps": 8, "num_stages": 3},
                {
                    "parallel_mapping": {"num_warps": (4, 8, 16), "ROWS": (1, 2)},
                    "tensor_tiling": {"BLOCK": (1024, 2048, 4096, 8192)},
                    "memory_optimization": {"num_stages": (1, 2, 3, 4)},
                },
            )
            return writer.code(tuning, "rows walked in blocks")
        block = power_of_two(cols)
        several = 1
        while several * block < 2048 and rows // (2 * several) >= 4 * machine:
            several *= 2
        warps = max(1 if several * block <= 512 else 4, min(16, several * block // 1024))
        tuning = Tuning(
            {"ROWS": several, "num_warps": warps},
            {
                "parallel_mapping": {"num_warps": nearby(warps, (1, 2, 4, 8, 16, 32))},
                "tensor_tiling": {"ROWS": tuple(r for r in (1, 2, 4, 8, 16) if r * block <= 16384) or (1,)},
            },
        )
        return writer.code(tuning, "whole rows in registers")


def _split_tuning(space: Space, machine: int) -> Tuning:
    """Start at pieces of at least eight blocks, or of two while multiprocessors would be idle."""
    rows, cols = space.outer[0], space.reduced[0]
    block = min(2048, power_of_two(-(-cols // 8)))
    pieces = 1
    while rows * 2 * pieces <= MOST_PROGRAMS * machine:
        blocks = 8 if rows * pieces >= 2 * machine else 2
        if cols < 2 * pieces * blocks * block:
            break
        pieces *= 2
    return Tuning(
        {"PIECES": pieces, "BLOCK": block, "num_warps": 4, "num_stages": 3},
        {
            "parallel_mapping": {"num_warps": (2, 4, 8), "PIECES": half_and_double(pieces, 1, 4096)},
            "tensor_tiling": {"BLOCK": half_and_double(block, 16, 8192)},
            "memory_optimization": {"num_stages": (1, 2, 3, 4)},
        },
    )
