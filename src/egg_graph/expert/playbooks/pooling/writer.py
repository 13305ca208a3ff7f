"""Write a pooling's kernel: a tile of output lines x output columns a program, the input read as it lies."""

from collections.abc import Sequence
from math import prod

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.group import KernelCode, Tuning
from egg_graph.expert.codegen.indexing import OFFSETS, Unfusable, Vector
from egg_graph.expert.codegen.launch import Wrapper, call, describe, kernel
from egg_graph.expert.playbooks.knobs import half_and_double, multiprocessors, power_of_two
from egg_graph.expert.playbooks.pooling.body import PoolBody, tap
from egg_graph.expert.playbooks.pooling.match import pooling_at
from egg_graph.expert.playbooks.pooling.spans import Span, Taps, Windows, span_of
from egg_graph.schema import Hardware

MOST_UNROLLED = 16
"""Loads of a lane up to which the loops over the window are unrolled."""

MOST_PADDED = 1.07
"""Columns of a line with its padding, relative to the fewest, up to which a wider block is taken."""


class PoolingWriter:
    """Writes kernel and wrapper.

    Raises:
        Unfusable: if an output has another shape than the pooling, or the elementwise work cannot be indexed.
    """

    knobs: tuple[str, ...] = ("LINES", "BLOCK")
    """Sizes of a program's tile."""

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str], name: str) -> None:
        found = [p for p in (pooling_at(graph, n) for n in graph.ordered(nodes)) if p is not None]
        if len(found) != 1:
            raise Unfusable("one pooling a kernel")
        self.graph, self.name, self.pooling = graph, name, found[0]
        self.outputs = graph.writes(nodes)
        self.doc = describe(graph, graph.ordered(nodes), self.outputs)
        if any(graph[o].shapes != self.pooling.node.shapes for o in self.outputs):
            raise Unfusable("an output has another shape than the pooling")
        self.axes = "dhw"[-self.pooling.rank :]
        self.constants: dict[str, Vector] = {}
        self.span = self._span(graph[self.pooling.x].size(graph[self.pooling.x].rank - 1))
        body = self.body = PoolBody(graph, nodes, self.pooling, self.span)
        body.before = []
        for part in self.span.parts:
            body.emit(self._joined(part, body.value(self.pooling.x, tap(part))))
        self.head, self.tap, body.lines, body.before = body.before, body.lines, [], None
        if self.pooling.is_max:
            body.helpers.add("propagate_max")
        body.forget_tile()
        values = [body.value(o, OFFSETS) for o in self.outputs]
        self.labels = [body.out(i, len(values)) for i in range(len(values))]
        for label, out in zip(self.labels, values, strict=True):
            body.store(label, out, OFFSETS)
        self.wrapper = Wrapper(graph, body, name)

    def code(self, target: Hardware | None = None) -> KernelCode:
        """Write the source."""
        sources, tuning = (self._kernel(), self._wrapper()), self._tuning(multiprocessors(target))
        return self.wrapper.code(self.outputs, sources, tuning, f"one pass over the windows: {self.doc}")

    def _span(self, length: Vector) -> Span:
        """Choose how lanes lie along the last dimension, of which `length` has the input's sizes."""
        return span_of(self.pooling, length)

    def _joined(self, part: str, value: str) -> str:
        """Join a part with one more row. Lanes outside the input matter only where a window can have them."""
        pooling = self.pooling
        if self.span.guards or any(pooling.is_bounded(dim) for dim in range(pooling.rank)):
            value = f"tl.where(inside{part}, {value}, {start_of(pooling.is_max)})"
        return f"part{part} = " + (f"propagate_max(part{part}, {value})" if pooling.is_max else f"part{part} + {value}")

    def _size(self, name: str, values: Vector) -> str:
        """Return a number of the window or the input as kernel text: a literal, or the name of a constexpr argument."""
        if len(set(values)) == 1:
            return str(values[0])
        self.constants[name] = values
        return name

    def _kernel(self) -> str:
        body, last, span = self.body, self.axes[-1], self.span
        lines = [
            *self._columns(),
            "lines = (pid // blocks) * LINES + tl.arange(0, LINES)[:, None]",
            "line_mask = lines < n_lines",
            f"offsets = lines * OUT_{last} + {last}",
            f"mask = line_mask & ({last} < OUT_{last})",
            *self._places(),
            f"planes = plane{span.tail}",
            f"plane_mask = line_mask{span.tail}",
            *span.columns(self._size, self._input(len(self.axes) - 1)),
            *(f"part{p} = tl.full({span.shape}, {start_of(self.pooling.is_max)}, tl.float32)" for p in span.parts),
            *self.head,
            *self._rows(),
            *span.join(self.pooling.is_max),
            *([] if self.pooling.is_max else [f"pool = pool / {self._divisor()}"]),
            *body.lines,
        ]  # fmt: skip
        return kernel(f"{self.name}_kernel", self._arguments(), f"{self.doc}, LINES x BLOCK outputs a program.", lines)

    def _columns(self) -> list[str]:
        """Name the program's columns."""
        last = self.axes[-1]
        return [
            "pid = tl.program_id(0)",
            f"blocks = tl.cdiv(OUT_{last}, BLOCK)",
            "begin = pid % blocks * BLOCK",
            f"{last} = begin + tl.arange(0, BLOCK)[None, :]",
            "if WIDE:  # more elements than 32 bits can count",
            "    pid = pid.to(tl.int64)",
        ]

    def _arguments(self) -> list[str]:
        """Name the kernel's parameters."""
        body = self.body
        lanes = ["LANES"] if isinstance(self.span, Windows) else []
        constants = [*body.sizes.values(), *self.constants, *(f"OUT_{a}" for a in self.axes), *lanes]
        return [
            *(f"{body.label(root)}_ptr" for root in body.roots), *(f"{label}_ptr" for label in self.labels),
            "n_lines", *body.numbers.values(), *(f"{c}: tl.constexpr" for c in (*constants, *self.knobs, "WIDE")),
        ]  # fmt: skip

    def _places(self) -> list[str]:
        """Write where the windows of the tile begin, and the plane that each line belongs to."""
        before = self.axes[:-1]
        lines = [f"plane = lines // {_product([f'OUT_{a}' for a in before])}" if before else "plane = lines"]
        for place, axis in enumerate(before):
            inner = [f"OUT_{a}" for a in before[place + 1 :]]
            text = f"lines // {_product(inner)}" if inner else "lines"
            lines.append(f"{axis} = ({text} % OUT_{axis}).to(tl.int32)")
        starts = isinstance(self.span, Taps) or (not self.pooling.is_max and "from_w" in self._divisor())
        for dim, axis in enumerate(self.axes if starts else before):
            stride = self._size(f"S_{axis}", self.pooling.stride[dim])
            lines.append(f"from_{axis} = {axis} * {stride}{self._less_padding(dim)}")
        return lines

    def _less_padding(self, dim: int) -> str:
        """Write the subtraction of one dimension's padding; nothing where it has none."""
        padding = self.pooling.padding[dim]
        return f" - {self._size(f'P_{self.axes[dim]}', padding)}" if any(padding) else ""

    def _reach(self) -> str:
        """Write which columns of a window's numbers are the input's, where a lane reads them one by one."""
        last = len(self.axes) - 1
        return f"(in_w >= 0) & (in_w < {self._input(last)})" if self.pooling.is_bounded(last) else "(w < OUT_w)"

    def _rows(self) -> list[str]:
        """Write one loop for each dimension of the window before the last, and the loads of a row inside them."""
        lines: list[str] = []
        row, mask, pad = "plane", "line_mask", ""
        for dim, axis in enumerate(self.axes[:-1]):
            lines += self._loop(dim, pad)
            pad += "    "
            lines.append(f"{pad}row{'' if axis == 'h' else '_d'} = {row} * {self._input(dim)} + in_{axis}")
            row = "row" if axis == "h" else "row_d"
            if self.pooling.is_bounded(dim):
                name = "row_mask" if axis == "h" else "row_mask_d"
                lines.append(f"{pad}{name} = {mask} & (in_{axis} >= 0) & (in_{axis} < {self._input(dim)})")
                mask = name
        rows, rows_mask = "planes", "plane_mask"
        if len(self.axes) > 1:
            rows, rows_mask = "rows", "rows_mask"
            lines += [f"{pad}rows = {row}{self.span.tail}", f"{pad}rows_mask = {mask}{self.span.tail}"]
        last, length = len(self.axes) - 1, self._input(len(self.axes) - 1)
        if isinstance(self.span, Taps):
            lines += self._loop(last, pad)
            pad += "    "
            lines.append(f"{pad}reach = {self._reach()}")
        for part in self.span.parts:
            lines.append(f"{pad}inside{part} = {rows_mask} & reach{part}")
            lines.append(f"{pad}at{part} = {rows} * {length} + in_w{part}")
        return [*lines, *(f"{pad}{line}" for line in self.tap)]

    def _loads(self, dim: int) -> int:
        """Count a lane's loads in the loops over the window from this dimension on."""
        taps = self.pooling.taps
        inner = taps[dim:] if isinstance(self.span, Taps) else taps[dim:-1]
        return prod(t[0] for t in inner) * len(self.span.parts)

    def _loop(self, dim: int, pad: str = "") -> list[str]:
        """Write the head of the loop over one dimension of the window, and the place in the input."""
        axis = self.axes[dim]
        loop = "tl.static_range" if self._loads(dim) <= MOST_UNROLLED else "range"
        step = self._size(f"D_{axis}", self.pooling.dilation[dim])
        return [
            f"{pad}for i_{axis} in {loop}({self._size(f'K_{axis}', self.pooling.taps[dim])}):",
            f"{pad}    in_{axis} = from_{axis} + i_{axis}{'' if step == '1' else f' * {step}'}",
        ]

    def _input(self, dim: int) -> str:
        source = self.graph[self.pooling.x]
        return self._size(f"IN_{self.axes[dim]}", source.size(source.rank - self.pooling.rank + dim))

    def _divisor(self) -> str:
        """Return what a window's sum is divided by: the padded places count, but never what lies beyond them."""
        pooling = self.pooling
        if pooling.divisor is not None:
            return repr(pooling.divisor)
        parts = []
        for dim, axis in enumerate(self.axes):
            taps = self._size(f"K_{axis}", pooling.taps[dim])
            end, begin = self._input(dim), f"from_{axis}"
            if pooling.counts_padding and any(pooling.padding[dim]):
                end = f"{end} + {self._size(f'P_{axis}', pooling.padding[dim])}"
            if not pooling.counts_padding:
                begin = f"tl.maximum(from_{axis}, 0)"
            is_whole = not pooling.is_bounded(dim) or (pooling.counts_padding and not pooling.ceil)
            parts.append(taps if is_whole else f"(tl.minimum(from_{axis} + {taps}, {end}) - {begin})")
        return f"({' * '.join(parts)})"

    def _tuning(self, machine: int) -> Tuning:
        """Choose the widest block that wastes few columns, and as many lines as fill the warps with loads of 16 bytes.

        Args:
            machine: Multiprocessors of the target.
        """
        pooling, span, shape = self.pooling, self.span, self.pooling.node.shape
        shares = not pooling.is_partition and pooling.rank > 1
        warps = 8 if shares else 4
        lanes = max(32 * warps if not isinstance(span, Windows) else 1, 256 * warps // power_of_two(span.held))
        tile = min(lanes, 64 * warps if not isinstance(span, Windows) else lanes) * span.outputs
        while warps > 1 and prod(shape) < 4 * machine * tile:
            tile, warps = tile // 2, warps // 2
        tile = max(tile, 16)
        widest = 64 if shares else tile
        block = fitting_block(shape[-1], max(widest, 16))
        lines = max(1, tile // block)
        return Tuning(
            {"LINES": lines, "BLOCK": block, "num_warps": warps},
            {
                "parallel_mapping": {"num_warps": (2, 4, 8), "LINES": half_and_double(lines, 1, 64)},
                "tensor_tiling": {"BLOCK": half_and_double(block, 16, 512)},
            },
        )

    def _wrapper(self) -> str:
        wrapper, pooling, name = self.wrapper, self.pooling, self.name
        source = self.graph[pooling.x]
        lines = []
        for dim, axis in enumerate(self.axes):
            size, taps, stride, padding, dilation = (
                wrapper.size(v)
                for v in (
                    source.size(source.rank - pooling.rank + dim), pooling.taps[dim], pooling.stride[dim],
                    pooling.padding[dim], pooling.dilation[dim],
                )
            )  # fmt: skip
            room = f"({size} + 2 * {padding} - {dilation} * ({taps} - 1) - 1)"
            if pooling.ceil:
                lines.append(f"out_{axis} = -(-{room} // {stride}) + 1")
                lines.append(
                    f"if (out_{axis} - 1) * {stride} >= {size} + {padding}:  # it would begin beyond the input"
                )
                lines.append(f"    out_{axis} -= 1")
            else:
                lines.append(f"out_{axis} = {room} // {stride} + 1")
            wrapper.know(f"out_{axis}", pooling.node.size(pooling.node.rank - pooling.rank + dim))
        lines += [f"{lb} = {wrapper.allocation(o)}" for lb, o in zip(self.labels, self.outputs, strict=True)]
        last = self.axes[-1]
        knob = {k: f'CONFIG["{name}_{k}"]' for k in self.knobs}
        lines += [
            f"n_lines = {self._count()}",
            f"grid = (triton.cdiv(n_lines, {knob['LINES']}) * triton.cdiv(out_{last}, {knob['BLOCK']}),)",
        ]
        most = f"max({wrapper.size(source.numel)}, {self.labels[0]}.numel(), 2 * n_lines)"
        arguments = [
            *wrapper.labels, *self.labels, "n_lines", *wrapper.runtime_numbers(), *wrapper.constants(),
            *(f"{c}={wrapper.size(values)}" for c, values in self.constants.items()),
            *(f"OUT_{a}=out_{a}" for a in self.axes), *self._lanes(),
            *(f"{k}={text}" for k, text in knob.items()), f"WIDE={most} > 2**31",
            f'num_warps=CONFIG["{name}_num_warps"]',
        ]  # fmt: skip
        lines += call(f"{name}_kernel[grid]", arguments, indent=4)
        lines.append(f"return {', '.join(self.labels)}")
        return wrapper.function(f"{self.doc}.", lines)

    def _count(self) -> str:
        """Return how many lines the grid is made of, as the wrapper's text."""
        return f"{self.labels[0]}.numel() // out_{self.axes[-1]}"

    def _lanes(self) -> list[str]:
        """Return the launch's argument for the lanes of a window, where lanes beside each other share one."""
        if not isinstance(self.span, Windows):
            return []
        same = len(set(self.span.lanes)) == 1
        lanes = self.span.lanes[0] if same else f"triton.next_power_of_2({self.wrapper.size(self.pooling.taps[-1])})"
        return [f"LANES={lanes}"]


def start_of(is_max: bool) -> str:
    """Return what joining begins with, as kernel text."""
    return 'float("-inf")' if is_max else "0.0"


def _product(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"({' * '.join(names)})"


def fitting_block(width: int, widest: int) -> int:
    """Return the widest block of columns, up to `widest`, of which few lie beyond a line of `width`."""
    blocks = [b for b in (512, 256, 128, 64, 32, 16) if b < 2 * width and b <= widest] or [16]
    padded = {b: -(-width // b) * b for b in blocks}
    return next(b for b in blocks if padded[b] <= MOST_PADDED * min(padded.values()))
