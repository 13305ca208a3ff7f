"""Write a pooling's kernel: a tile of output lines x output columns a program, the input read as it lies."""

from collections.abc import Sequence
from math import prod

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.fusion import Body
from egg_graph.expert.codegen.group import KernelCode, Tuning
from egg_graph.expert.codegen.indexing import OFFSETS, Index, Run, Unfusable, Vector
from egg_graph.expert.codegen.launch import Wrapper, call, describe, kernel
from egg_graph.expert.playbooks.knobs import half_and_double, power_of_two
from egg_graph.expert.playbooks.pooling.match import Pooling, pooling_at

TAP = Index("at", "inside", tile=True)
"""The input's elements at one place of the windows."""
MOST_UNROLLED = 16
"""Places of a window, over one dimension and all after it, up to which the loops over them are unrolled."""
TILE = 1024
"""Outputs of one program."""


class _PoolBody(Body):
    """Elementwise work ahead of the pooling and behind it."""

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str], pooling: Pooling) -> None:
        super().__init__(graph, nodes)
        self.pool = pooling.node.name
        self.planes = {
            index: tuple(prod(shape[-pooling.rank :]) for shape in tensor.shapes)
            for index, tensor in ((TAP, graph[pooling.x]), (OFFSETS, pooling.node))
        }
        """Elements of a plane, before and behind the pooling."""
        axes = [f"{name}{axis}" for name in ("", "from_", "in_") for axis in "dhw"]
        self.reserve(["pool", "plane", "lines", "line_mask", "line", "at", "inside", "i_d", "i_h", "i_w", *axes])

    def project_special(self, pattern: tuple[Run, ...], index: Index) -> Index | None:
        """Find what is constant in a plane once a line, ahead of the window's loops."""
        plane = Index("plane", "line_mask")
        return self.along_lines(pattern, plane, self.planes[index]) if index in self.planes else None

    def reduce(self, node: Node, index: Index) -> str:
        if node.name != self.pool or index != OFFSETS:
            raise Unfusable(f"{node.op} is no elementwise operator at its own place")
        return "pool"


class PoolingWriter:
    """Writes kernel and wrapper.

    Raises:
        Unfusable: if an output has another shape than the pooling, or the elementwise work cannot be indexed.
    """

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
        body = self.body = _PoolBody(graph, nodes, self.pooling)
        body.before = []
        value = body.value(self.pooling.x, TAP)
        self.head, self.tap, body.lines, body.before = body.before, body.lines, [], None
        self.tap.append(self._joined(value))
        if self.pooling.is_max:
            body.helpers.add("propagate_max")
        body.forget_tile()
        values = [body.value(o, OFFSETS) for o in self.outputs]
        self.labels = [body.out(i, len(values)) for i in range(len(values))]
        for label, out in zip(self.labels, values, strict=True):
            body.store(label, out, OFFSETS)
        self.wrapper = Wrapper(graph, body, name)

    def code(self) -> KernelCode:
        """Write the source."""
        sources, tuning = (self._kernel(), self._wrapper()), _tuning(self.pooling.node.shape)
        return self.wrapper.code(self.outputs, sources, tuning, f"one pass over the windows: {self.doc}")

    def _joined(self, value: str) -> str:
        if self.pooling.is_max:
            return f'pool = propagate_max(pool, tl.where(inside, {value}, float("-inf")))'
        return f"pool += tl.where(inside, {value}, 0.0)"

    def _size(self, name: str, values: Vector) -> str:
        """Return a number of the window or the input as kernel text: a literal, or the name of a constexpr argument."""
        if len(set(values)) == 1:
            return str(values[0])
        self.constants[name] = values
        return name

    def _kernel(self) -> str:
        body, last = self.body, self.axes[-1]
        lines = [
            "pid = tl.program_id(0)",
            f"blocks = tl.cdiv(OUT_{last}, BLOCK)",
            f"{last} = (pid % blocks) * BLOCK + tl.arange(0, BLOCK)[None, :]",
            "if WIDE:  # more elements than 32 bits can count",
            "    pid = pid.to(tl.int64)",
            "lines = (pid // blocks) * LINES + tl.arange(0, LINES)[:, None]",
            "line_mask = lines < n_lines",
            f"offsets = lines * OUT_{last} + {last}",
            f"mask = line_mask & ({last} < OUT_{last})",
            *self._places(),
            f'pool = tl.full([LINES, BLOCK], {_start(self.pooling.is_max)}, tl.float32)',
            *self.head,
            *self._taps(),
            *([] if self.pooling.is_max else [f"pool = pool / {self._divisor()}"]),
            *body.lines,
        ]  # fmt: skip
        constants = [*body.sizes.values(), *self.constants, *(f"OUT_{a}" for a in self.axes), "LINES", "BLOCK", "WIDE"]
        arguments = [
            *(f"{body.label(root)}_ptr" for root in body.roots), *(f"{label}_ptr" for label in self.labels),
            "n_lines", *body.numbers.values(), *(f"{c}: tl.constexpr" for c in constants),
        ]  # fmt: skip
        return kernel(f"{self.name}_kernel", arguments, f"{self.doc}, LINES x BLOCK outputs a program.", lines)

    def _places(self) -> list[str]:
        """Write where the windows of the tile begin, and the plane that each line belongs to."""
        before = self.axes[:-1]
        lines = [f"plane = lines // {_product([f'OUT_{a}' for a in before])}" if before else "plane = lines"]
        for place, axis in enumerate(before):
            inner = [f"OUT_{a}" for a in before[place + 1 :]]
            text = f"lines // {_product(inner)}" if inner else "lines"
            lines.append(f"{axis} = ({text} % OUT_{axis}).to(tl.int32)")
        for dim, axis in enumerate(self.axes):
            stride, padding = self._size(f"S_{axis}", self.pooling.stride[dim]), self.pooling.padding[dim]
            shift = f" - {self._size(f'P_{axis}', padding)}" if any(padding) else ""
            lines.append(f"from_{axis} = {axis} * {stride}{shift}")
        return lines

    def _taps(self) -> list[str]:
        """Write one loop for each dimension of the window; what depends on lines alone stays out of the inner loops."""
        lines: list[str] = []
        at, inside = "plane", "line_mask"
        for dim, axis in enumerate(self.axes):
            pad = "    " * dim
            taps = self.pooling.taps[dim]
            unrolled = prod(t[0] for t in self.pooling.taps[dim:]) <= MOST_UNROLLED
            loop = "tl.static_range" if unrolled else "range"
            step = self._size(f"D_{axis}", self.pooling.dilation[dim])
            length = self._input(dim)
            lines.append(f"{pad}for i_{axis} in {loop}({self._size(f'K_{axis}', taps)}):")
            pad += "    "
            lines.append(f"{pad}in_{axis} = from_{axis} + i_{axis}{'' if step == '1' else f' * {step}'}")
            bound = f"(in_{axis} >= 0) & (in_{axis} < {length})" if self.pooling.is_bounded(dim) else ""
            last = dim == self.pooling.rank - 1
            inside = " & ".join(p for p in (inside, bound) if p)
            if last:
                lines.append(f"{pad}inside = {inside} & ({axis} < OUT_{axis})")
                lines.append(f"{pad}at = {at} * {length} + in_{axis}")
                lines += [f"{pad}{line}" for line in self.tap]
            else:
                lines.append(f"{pad}line_{axis} = {at} * {length} + in_{axis}")
                at = f"line_{axis}"
                if bound:
                    lines.append(f"{pad}inside_{axis} = {inside}")
                    inside = f"inside_{axis}"
        return lines

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
        block, tall = f'CONFIG["{name}_BLOCK"]', f'CONFIG["{name}_LINES"]'
        lines += [
            f"n_lines = {self.labels[0]}.numel() // out_{last}",
            f"grid = (triton.cdiv(n_lines, {tall}) * triton.cdiv(out_{last}, {block}),)",
        ]
        most = f"max({wrapper.size(source.numel)}, {self.labels[0]}.numel(), 2 * n_lines)"
        arguments = [
            *wrapper.labels, *self.labels, "n_lines", *wrapper.runtime_numbers(), *wrapper.constants(),
            *(f"{c}={wrapper.size(values)}" for c, values in self.constants.items()),
            *(f"OUT_{a}=out_{a}" for a in self.axes), f"LINES={tall}", f"BLOCK={block}", f"WIDE={most} > 2**31",
            f'num_warps=CONFIG["{name}_num_warps"]',
        ]  # fmt: skip
        lines += call(f"{name}_kernel[grid]", arguments, indent=4)
        lines.append(f"return {', '.join(self.labels)}")
        return wrapper.function(f"{self.doc}.", lines)


def _start(is_max: bool) -> str:
    return 'float("-inf")' if is_max else "0.0"


def _product(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"({' * '.join(names)})"


def _tuning(shape: tuple[int, ...]) -> Tuning:
    """Choose the block that wastes the fewest columns; a program has `TILE` outputs while there are enough of them."""
    width = shape[-1]
    blocks = [b for b in (256, 128, 64, 32) if b < 2 * width] or [power_of_two(width, 16)]
    block = min(blocks, key=lambda b: -(-width // b) * b)
    tile = TILE if prod(shape) >= 2**20 else TILE // 4
    lines = max(1, tile // block)
    return Tuning(
        {"LINES": lines, "BLOCK": block, "num_warps": 4},
        {
            "parallel_mapping": {"num_warps": (2, 4, 8), "LINES": half_and_double(lines, 1, 64)},
            "tensor_tiling": {"BLOCK": half_and_double(block, 16, 512)},
        },
    )
