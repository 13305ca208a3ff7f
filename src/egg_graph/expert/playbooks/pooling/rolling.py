"""A pooling whose windows overlap row by row: a program walks down a strip and keeps the last rows of its windows.

Every row of the input is read and joined along the last dimension once, not once for each output that it belongs to.
"""

from math import prod

from egg_graph.expert.codegen.group import Tuning
from egg_graph.expert.codegen.indexing import Vector
from egg_graph.expert.codegen.launch import kernel
from egg_graph.expert.playbooks.knobs import half_and_double
from egg_graph.expert.playbooks.pooling.match import Pooling
from egg_graph.expert.playbooks.pooling.spans import Span, Taps
from egg_graph.expert.playbooks.pooling.writer import PoolingWriter, fitting_block, start_of

MOST_KEPT = 8
"""Most rows that a window may have: a program keeps all but one in registers."""
TILE = 512
"""Outputs that a program computes side by side, all strips together."""
RUN = 16
"""Output rows of a strip, which one program walks down."""


def rolls(pooling: Pooling) -> bool:
    """Return whether neighbouring outputs, in the last two dimensions, have windows one element apart."""
    if pooling.rank < 2:
        return False
    rows = set(pooling.taps[-2])
    dense = all(set(values) == {1} for values in (*pooling.stride[-2:], pooling.dilation[-2]))
    return dense and len(rows) == 1 and 1 < min(rows) <= MOST_KEPT


class RollingWriter(PoolingWriter):
    """Writes kernel and wrapper: LINES strips of RUN output rows x BLOCK columns a program."""

    knobs = ("LINES", "RUN", "BLOCK")

    def _span(self, length: Vector) -> Span:
        return Taps()

    @property
    def _kept(self) -> list[str]:
        """The rows of a window that a program keeps, the oldest first."""
        return [f"row_{n}" for n in range(self.pooling.taps[-2][0] - 1)]

    def _kernel(self) -> str:
        start = f"tl.full([LINES, BLOCK], {start_of(self.pooling.is_max)}, tl.float32)"
        lines = [
            *self._columns(),
            "runs = tl.cdiv(OUT_h, RUN)",
            "strips = (pid // blocks) * LINES + tl.arange(0, LINES)[:, None]",
            "strip_mask = strips < n_lines",
            "begin_h = (strips % runs * RUN).to(tl.int32)",
            "image = strips // runs",
            *self._image(),
            "planes = plane",
            "plane_mask = strip_mask",
            *(f"{row} = {start}" for row in self._kept),
            *self.head,
            f"for i in tl.static_range(RUN + {len(self._kept)}):",
            f"    in_h = begin_h + i{self._less_padding(-2)}",
            f"    part = {start}",
            *(f"    {line}" for line in self._row()),
            f"    if i >= {len(self._kept)}:",
            *(f"        {line}" for line in self._output()),
            *(f"    {old} = {new}" for old, new in zip(self._kept, [*self._kept[1:], "part"], strict=True)),
        ]
        return kernel(f"{self.name}_kernel", self._arguments(), f"{self.doc}, LINES x RUN x BLOCK outputs.", lines)

    def _image(self) -> list[str]:
        """Write the plane of each strip, its place in the dimension ahead of the rows, and where windows begin."""
        lines = ["plane = image"]
        if self.pooling.rank == 3:
            stride = self._size("S_d", self.pooling.stride[0])
            lines = ["plane = image // OUT_d", "d = (image % OUT_d).to(tl.int32)"]
            lines.append(f"from_d = d * {stride}{self._less_padding(0)}")
        return [*lines, f"from_w = w{self._less_padding(-1)}"]

    def _row(self) -> list[str]:
        """Join one row of the input into `part`, along the last dimension and along that ahead of the rows."""
        rank, height = self.pooling.rank, self._input(self.pooling.rank - 2)
        lines = [f"strip_row = strip_mask & (in_h >= 0) & (in_h < {height})"]
        if rank == 2:
            return [*lines, f"rows = plane * {height} + in_h", *self._taps("strip_row")]
        depth, mask, inner = self._input(0), "strip_row", []
        if self.pooling.is_bounded(0):
            mask = "row_mask_d"
            inner.append(f"row_mask_d = strip_row & (in_d >= 0) & (in_d < {depth})")
        inner += [f"rows = (plane * {depth} + in_d) * {height} + in_h", *self._taps(mask)]
        return [*lines, *self._loop(0), *(f"    {line}" for line in inner)]

    def _taps(self, mask: str) -> list[str]:
        """Join the numbers of a row that belong to a window, where `mask` says that there is a row."""
        last = self.pooling.rank - 1
        body = [f"inside = {mask} & {self._reach()}", f"at = rows * {self._input(last)} + in_w", *self.tap]
        return [*self._loop(last), *(f"    {line}" for line in body)]

    def _loads(self, dim: int) -> int:
        """Count a lane's loads in the loops of one row."""
        taps = self.pooling.taps
        return prod(t[0] for d, t in enumerate(taps) if d != self.pooling.rank - 2)

    def _output(self) -> list[str]:
        """Join the rows of a window, and store what follows."""
        lines = [
            f"h = begin_h + (i - {len(self._kept)})",
            "line_mask = strip_mask & (h < OUT_h)",
            "lines = image * OUT_h + h",
            "offsets = lines * OUT_w + w",
            "mask = line_mask & (w < OUT_w)",
        ]
        pool = "part"
        for row in reversed(self._kept):
            pool = f"propagate_max({row}, {pool})" if self.pooling.is_max else f"{row} + ({pool})"
        lines.append(f"pool = {pool}")
        if not self.pooling.is_max:
            divisor = self._divisor()
            lines += [f"from_h = h{self._less_padding(-2)}"] if "from_h" in divisor else []
            lines.append(f"pool = pool / {divisor}")
        return [*lines, *self.body.lines]

    def _count(self) -> str:
        return f'{self.labels[0]}.numel() // (out_h * out_w) * triton.cdiv(out_h, CONFIG["{self.name}_RUN"])'

    def _tuning(self, machine: int) -> Tuning:
        """Take long runs of wide rows, and shorter ones where there would be too few programs."""
        shape = self.pooling.node.shape
        images, (height, width) = prod(shape[:-2]), shape[-2:]
        block = fitting_block(width, TILE)
        lines, run = max(1, TILE // block), RUN

        def programs() -> int:
            return -(-images * -(-height // run) // lines) * -(-width // block)

        while run > 4 and (programs() < 8 * machine or run >= 2 * height):
            run //= 2
        while lines > 1 and programs() < 4 * machine:
            lines //= 2
        return Tuning(
            {"LINES": lines, "RUN": run, "BLOCK": block, "num_warps": 2},
            {
                "parallel_mapping": {"num_warps": (1, 2, 4), "RUN": half_and_double(run, 2, 32)},
                "tensor_tiling": {"BLOCK": half_and_double(block, 16, 512), "LINES": half_and_double(lines, 1, 64)},
            },
        )
