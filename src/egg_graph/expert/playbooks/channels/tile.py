"""The tile of a kernel over [samples, channels, pixels]: a piece of one plane, or of the same plane of several samples.

All elements of a tile belong to one channel, so that what varies by channel is one number of the program. A plane whose
length is no multiple of a vector does not begin at 16 bytes. The tile then begins at the vector that holds the plane's
first element: whole vectors are loaded, also those that reach into a neighbour, and only the edges are stored singly.
"""

from math import prod

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.fusion import Body
from egg_graph.expert.codegen.group import Tuning
from egg_graph.expert.codegen.indexing import Index, Run
from egg_graph.expert.codegen.launch import Wrapper
from egg_graph.expert.codegen.reductions import Space
from egg_graph.expert.playbooks.knobs import half_and_double, power_of_two

TILE = Index("offsets", "near", tile=True)
"""The elements of the tile, and those that share a vector with them."""
CHANNEL = Index("channel")
"""The program's channel, in a tensor with one element a channel."""
ELEMENTS = 4096
"""Elements of one program: 16 a thread."""
BLOCKS = (4096, 2048, 1024, 512, 256, 128, 64, 32, 16)
HEAD = (
    "if WIDE:  # offsets need 64 bits",
    "    pid = pid.to(tl.int64)",
    "piece = pid % n_pieces",
    "which = pid // n_pieces % n_channels",
    "group = pid // (n_pieces * n_channels)",
    "channel = which + tl.zeros([1, 1], tl.int32)",
    "samples = group * ROWS + tl.arange(0, ROWS)[:, None]",
    "row_mask = samples < n_samples",
    "planes = samples * n_channels + channel",
    "begin = planes * n_pixels",
    "end = begin + n_pixels",
    "first = begin // VECTOR * VECTOR + piece * BLOCK",
    "offsets = first + tl.arange(0, BLOCK)[None, :]",
    "near = row_mask & (offsets < tl.cdiv(end, VECTOR) * VECTOR)",
)
"""The lines that place a program's tile; `pid` is known."""
MASK = "mask = row_mask & (offsets >= begin) & (offsets < end)"
WHOLE = (
    "whole = row_mask & (offsets >= tl.cdiv(begin, VECTOR) * VECTOR) & (offsets < end // VECTOR * VECTOR)",
    "is_edge = (piece == 0) | ((piece + 1) * BLOCK + VECTOR > n_pixels)",
)
"""The vectors that lie in the plane, and whether a tile may hold others."""
SIZES = ("n_samples", "n_channels", "n_pixels", "n_pieces")
CONSTANTS = ("ROWS", "BLOCK", "VECTOR", "ALIGNED", "WIDE")
NAMES = ("which", "group", "channel", "samples", "planes", "begin", "end", "near", "whole", "is_edge", "counted",
         "mean", "rough", "apart", "rest", "m2", "base", "part", "n_parts", "n_partial", *SIZES)  # fmt: skip


def space_of_channels(node: Node) -> Space:
    """Return a tensor [samples, channels, …] with its channels as the reduced axis."""
    return Space(node.size(0), node.size(1), tuple(prod(s[2:]) for s in node.shapes))


class ChannelBody(Body):
    """Elementwise work on a tile of one channel."""

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str], space: Space) -> None:
        super().__init__(graph, nodes)
        self.space = space
        self.reserve(NAMES)

    def project_special(self, pattern: tuple[Run, ...], index: Index) -> Index | None:
        """Name what varies by channel, by plane or by sample alone."""
        if index != TILE:
            return None
        of = self.space.pattern
        known = {
            of(False, True, False): CHANNEL,
            of(True, True, False): Index("planes", "row_mask"),
            of(True, False, False): Index("samples", "row_mask"),
        }
        if pattern in known:
            return known[pattern]
        together = self.space.lines_together(pattern)  # by group of a sample's channels
        return None if together is None else Index(f"planes // {self.size(together)}", "row_mask")

    def store_tile(self, label: str, value: str) -> None:
        """Write the tile's elements of a plane: whole vectors, then the edges that share a vector with a neighbour."""
        self.lines += [
            f"tl.store({label}_ptr + offsets, {value}, mask=whole)",
            "if not ALIGNED:",
            "    if is_edge:",
            f"        tl.store({label}_ptr + offsets, {value}, mask=mask & (whole == 0))",
        ]


def sizes_of(wrapper: Wrapper, space: Space, name: str) -> list[str]:
    """Write the wrapper's lines that measure the tensor and cut its planes into pieces."""
    samples, channels, pixels = (wrapper.size(v) for v in (space.outer, space.reduced, space.inner))
    return [
        f"n_samples, n_channels, n_pixels = {samples}, {channels}, {pixels}",
        "n_elements = n_samples * n_channels * n_pixels",
        "vector = min(n_elements & -n_elements, 8)  # the largest power of two that divides them",
        "aligned = n_pixels % vector == 0",
        f'pieces = triton.cdiv(n_pixels if aligned else n_pixels + vector - 1, CONFIG["{name}_BLOCK"])',
        f'groups = triton.cdiv(n_samples, CONFIG["{name}_ROWS"])',
    ]


def launch_constants(name: str) -> list[str]:
    """Write the keyword arguments of a launch over tiles."""
    rows, block, warps = (f'CONFIG["{name}_{k}"]' for k in ("ROWS", "BLOCK", "num_warps"))
    wide = f"WIDE=groups * {rows} * n_channels * n_pixels + {block} >= 2**31"
    return [f"ROWS={rows}", f"BLOCK={block}", "VECTOR=vector", "ALIGNED=aligned", wide, f"num_warps={warps}"]


def tuning(space: Space) -> Tuning:
    """Choose the largest block that wastes no more than a tenth beyond the least; small planes share a program."""
    samples, pixels = space.outer[0], space.inner[0]
    reach = pixels if pixels % 4 == 0 else pixels + 7  # it may begin inside a vector
    padded = {b: -(-reach // b) * b for b in BLOCKS if b >= min(64, power_of_two(reach, 16))}
    block = next(b for b, elements in padded.items() if elements <= 1.1 * min(padded.values()))
    rows = min(ELEMENTS // block, power_of_two(samples))
    warps = max(1, min(8, rows * block // 512))
    return Tuning(
        {"BLOCK": block, "ROWS": rows, "num_warps": warps},
        {
            "parallel_mapping": {"num_warps": tuple(w for w in (2, 4, 8, 16) if warps // 2 <= w <= 2 * warps)},
            "tensor_tiling": {
                "BLOCK": half_and_double(block, 16, 8192), "ROWS": half_and_double(rows, 1, 256),
            },
        },
    )  # fmt: skip
