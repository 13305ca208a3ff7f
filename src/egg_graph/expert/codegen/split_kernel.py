"""Write the two kernels of a group that reduces a few long rows: each row is cut into pieces, one program a piece.

The first kernel reduces every piece to a few numbers. The second joins the numbers of its row, always in the same order
and without atomics, and computes on its piece what follows the reductions. Programs of neighbouring ids work at the
same place of different rows, so that what is common to all rows (a norm's weight) is read from DRAM once.
"""

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.group import KernelCode, Tuning
from egg_graph.expert.codegen.indexing import Index, Unfusable
from egg_graph.expert.codegen.launch import Wrapper, call, describe, kernel
from egg_graph.expert.codegen.reduction_kernel import ALIGN, ALIGNED, FOLD, PIECE_LOOP, span_loop, span_tiles, step
from egg_graph.expert.codegen.reductions import Space
from egg_graph.expert.codegen.tile import PIECES, TileBody

JOINABLE = frozenset({"sum", "mean", "amax", "amin", "var"})
"""Reductions whose running values fit into fp32 and join to the same running values."""
PIECE = [
    "first = piece * width",
    "last = tl.minimum(first + width, n_cols)",
]
TILE = [
    "    cols = start + tl.arange(0, BLOCK)[None, :]",
    "    col_mask = cols < n_cols",
    "    offsets = rows * n_cols + cols",
    "    mask = row_mask & col_mask",
]


class SplitWriter:
    """Writes both kernels and their wrapper.

    Raises:
        Unfusable: if a reduction needs another's result first, or cannot be joined from pieces.
    """

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str], space: Space, name: str) -> None:
        self.graph, self.space, self.name = graph, space, name
        self.outputs = graph.writes(nodes)
        self.parts = TileBody(graph, nodes, space, looped=True, names=PIECES)
        levels = self.parts.levels()
        if not space.is_rows or len(levels) != 1:
            raise Unfusable("its reductions take more than one pass over whole rows")
        if any(n.base not in JOINABLE or not n.is_float for n in self.parts.walked):
            raise Unfusable("a reduction cannot be joined from pieces")
        self.one = self.parts.accumulate(levels[0])
        self.rest = TileBody(graph, nodes, space, looped=True, names=PIECES)
        self.rest.share_labels(self.parts)
        self.rest.results = dict(self.parts.results)
        self.full = [o for o in self.outputs if self.rest.is_full(o)]
        self.labels = {o: self.rest.out(i, len(self.outputs)) for i, o in enumerate(self.outputs)}
        self.kept_lines, self.full_lines = self._rest()
        self.wrapper = Wrapper(graph, self.parts, name, self.rest)
        self.doc = describe(graph, graph.ordered(nodes), self.outputs)

    def code(self, tuning: Tuning, summary: str) -> KernelCode:
        """Write the source with these knobs; `summary` begins the group's line in the module's docstring."""
        sources = (self._parts_kernel(), self._rest_kernel(), self._wrapper())
        return self.wrapper.code(self.outputs, sources, tuning, f"{summary}: {self.doc}")

    def _rest(self) -> tuple[list[str], list[str]]:
        """Write the second kernel's lines of one element a row, and those of its loop."""
        body = self.rest
        once = Index("rows", "row_mask & (piece == 0)" if self.full else "row_mask")
        for output in self.outputs:
            if output not in self.full:
                body.store(self.labels[output], body.value(output, body.names.kept), once)
        kept, body.lines, body.before, body.in_spans = body.lines, [], [], True
        for output in self.full:
            body.store(self.labels[output], body.value(output, body.names.full), body.names.full)
        return [*kept, *body.before], body.lines

    def _parts_kernel(self) -> str:
        head = ["pid = tl.program_id(0)", *self._rows("pid % n_rows"), "piece = pid // n_rows", *PIECE]
        head += [FOLD.format(fold=self.parts.fold)] if self.parts.fold else []
        lines = [*self.one.start, *self._loop(self.one.loop), *self.one.count]
        for place, state in enumerate(self.parts.states):
            lines += [*([state.first] if state.first else []), f"{state.name}_part = {state.joined}"]
            lines.append(f"tl.store({self._where(place)} + piece, {state.name}_part, mask=row_mask)")
        arguments = [*(f"{self.parts.label(root)}_ptr" for root in self.parts.roots), "partial_ptr"]
        return kernel(
            f"{self.name}_parts_kernel",
            [*arguments, *self._numbers(self.parts, ["BLOCK", "STAGES"])],
            "Each program reduces one piece of one row.",
            [*head, *lines],
        )

    def _rest_kernel(self) -> str:
        if self.full:
            head = [
                "pid = tl.num_programs(0) - 1 - tl.program_id(0)  # backwards: what was read last is still in L2",
                *self._rows("pid % n_rows"), "piece = pid // n_rows", *([] if self.rest.span else PIECE),
            ]  # fmt: skip
        else:
            head = ["pid = tl.program_id(0)", *self._rows("pid")]
        head += ["lanes = tl.arange(0, LANES)[None, :]", "lane_mask = lanes < n_pieces"]
        for place, state in enumerate(self.parts.states):
            head.append(f"{state.name} = tl.load({self._where(place)} + lanes, mask=lane_mask, other={state.neutral})")
        if self.one.count:
            head.append("count = tl.where(lane_mask, tl.minimum(n_cols - lanes * width, width), 0).to(tl.float32)")
        lines = [*self.one.end, *self.kept_lines, *(self._last_loop() if self.full else [])]
        arguments = [
            *(f"{self.rest.label(root)}_ptr" for root in self.rest.roots), "partial_ptr",
            *(f"{self.labels[o]}_ptr" for o in self.outputs),
        ]  # fmt: skip
        constants = ["LANES", *([self._width, "STAGES"] if self.full else [])]
        doc = f"{self.doc}, from the pieces' results" + (", on one piece." if self.full else ", on one row.")
        return kernel(
            f"{self.name}_rest_kernel", [*arguments, *self._numbers(self.rest, constants)], doc, [*head, *lines]
        )

    @property
    def _width(self) -> str:
        """The constant of the second kernel that is a tile's width."""
        return "STEP" if self.rest.span else "BLOCK"

    def _last_loop(self) -> list[str]:
        """Walk over the piece; where rows have spans, over the program's share of their tiles."""
        if self.rest.span is None:
            return self._loop(self.full_lines)
        span = self.rest.size(self.rest.span)
        end = "tl.minimum(piece * share + share, n_tiles)"
        share = "share = tl.cdiv(n_tiles, n_pieces)"
        return [*span_tiles(span), share, *span_loop(span, "piece * share", end, self.full_lines)]

    def _rows(self, row: str) -> list[str]:
        return [
            "if WIDE:  # offsets need 64 bits",
            "    pid = pid.to(tl.int64)",
            ALIGNED.format(length="n_cols"),
            f"rows = {row} + tl.arange(0, 1)[:, None]",
            "row_mask = rows < n_rows",
        ]

    def _where(self, place: int) -> str:
        """Return the pointer to a row's partial results."""
        before = ("rows", "(n_rows + rows)")[place] if place < 2 else f"({place} * n_rows + rows)"
        return f"partial_ptr + {before} * n_pieces"

    def _loop(self, lines: list[str]) -> list[str]:
        return [PIECE_LOOP.format(step="BLOCK"), *TILE, *(f"    {line}" for line in lines)]

    def _numbers(self, body: TileBody, constants: list[str]) -> list[str]:
        return [
            "n_rows", "n_cols", "n_pieces", "width", *body.numbers.values(),
            *(f"{n}: tl.constexpr" for n in [*body.sizes.values(), *constants, "ALIGN", "WIDE"]),
        ]  # fmt: skip

    def _wrapper(self) -> str:
        wrapper, name = self.wrapper, self.name
        knob = {k: f'CONFIG["{name}_{k}"]' for k in ("BLOCK", "PIECES", "num_warps", "num_stages")}
        lines = [f"{self.labels[o]} = {wrapper.allocation(o)}" for o in self.outputs]
        lines += [
            f"n_rows, n_cols = {wrapper.size(self.space.outer)}, {wrapper.size(self.space.reduced)}",
            f"width = triton.cdiv(n_cols, {knob['PIECES']} * {knob['BLOCK']}) * {knob['BLOCK']}",
            "pieces = triton.cdiv(n_cols, width)",
            f"partial = torch.empty(({len(self.parts.states)}, n_rows, pieces), device={wrapper.labels[0]}.device, "
            "dtype=torch.float32)",
        ]
        outputs = [self.labels[o] for o in self.outputs]
        grid = "n_rows * pieces"
        for kind, body, rows, results in (
            ("parts", self.parts, grid, ["partial"]),
            ("rest", self.rest, grid if self.full else "n_rows", ["partial", *outputs]),
        ):
            walks = rows == grid
            span = body.span if kind == "rest" else None
            tile = step(wrapper.size(span), knob["BLOCK"]) if span else f"BLOCK={knob['BLOCK']}"
            arguments = [
                *(body.label(root) for root in body.roots), *results, "n_rows", "n_cols", "pieces", "width",
                *wrapper.runtime_numbers(body), *wrapper.constants(body),
                *(["LANES=triton.next_power_of_2(pieces)"] if kind == "rest" else []),
                *([tile, f"STAGES={knob['num_stages']}"] if walks else []),
                ALIGN.format(length="n_cols"),
                "WIDE=max(n_rows * n_cols + width, partial.numel()) >= 2**31",
                *([f"num_warps={knob['num_warps']}"] if walks else []),
            ]  # fmt: skip
            lines += call(f"{name}_{kind}_kernel[({rows},)]", arguments, indent=4)
        lines.append(f"return {', '.join(outputs)}")
        return wrapper.function(f"{self.doc}.", lines)
