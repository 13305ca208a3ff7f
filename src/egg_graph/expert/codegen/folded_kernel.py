"""Write the two kernels of a group that reduces a middle axis of [outer, steps, inner] to results alone.

Where `inner` is no multiple of four, a row of it does not begin at 16 bytes, and every load would be four bytes wide.
Four steps together are one row that does: the first kernel reduces [outer, steps / 4, 4 inner] in pieces of the axis,
the second joins the four phases and the pieces, in a fixed order and without atomics.
"""

from dataclasses import replace

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.group import KernelCode, Tuning
from egg_graph.expert.codegen.indexing import Unfusable
from egg_graph.expert.codegen.launch import Wrapper, call, describe, kernel
from egg_graph.expert.codegen.reduction_kernel import PIECE_LOOP
from egg_graph.expert.codegen.reductions import Space
from egg_graph.expert.codegen.tile import COLUMNS, State, TileBody

FOLDED = replace(COLUMNS, begun="(start - first)", length="(last - first)")
"""Columns of which each program walks over one piece, from `first` to `last`."""
TILE = [
    "rounds = start + tl.arange(0, STEPS)[:, None]",
    "step_mask = rounds < last",
    "steps = rounds * FOLD + phase",
    "offsets = (outer * n_rounds + rounds) * n_lanes + lane",
    "mask = step_mask & inner_mask",
]
NAMES = ["n_lanes", "n_rounds", "lane", "phase", "rounds", "n_partial", "where_mask"]


class FoldedWriter:
    """Writes both kernels and their wrapper.

    Raises:
        Unfusable: if anything of the reduced tensor's size is written, or one pass is not enough.
    """

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str], space: Space, name: str) -> None:
        self.graph, self.space, self.name = graph, space, name
        self.outputs = graph.writes(nodes)
        self.parts = TileBody(graph, nodes, space, looped=True, names=FOLDED)
        self.parts.reserve(NAMES)
        levels = self.parts.levels()
        if space.is_rows or len(levels) != 1 or any(self.parts.is_full(o) for o in self.outputs):
            raise Unfusable("more than results of one pass over columns is written")
        if any(n.dtype not in ("float32", "float16", "bfloat16", "int64") for n in self.parts.reductions):
            raise Unfusable("a reduction cannot be joined from pieces")
        self.one = self.parts.accumulate(levels[0])
        if any(n.base not in ("argmax", "argmin") and not n.is_float for n in self.parts.reductions):
            raise Unfusable("a sum of integers does not fit into fp32")
        self.rest = TileBody(graph, nodes, space, looped=True, names=FOLDED)
        self.rest.reserve(NAMES)
        self.rest.share_labels(self.parts)
        self.rest.results = dict(self.parts.results)
        self.labels = {o: self.rest.out(i, len(self.outputs)) for i, o in enumerate(self.outputs)}
        kept = self.rest.names.kept
        for output in self.outputs:
            self.rest.store(self.labels[output], self.rest.value(output, kept), kept)
        self.wrapper = Wrapper(graph, self.parts, name, self.rest)
        self.doc = describe(graph, graph.ordered(nodes), self.outputs)

    def code(self, tuning: Tuning, summary: str) -> KernelCode:
        """Write the source with these knobs; `summary` begins the group's line in the module's docstring."""
        sources = (self._parts_kernel(), self._rest_kernel(), self._wrapper())
        return self.wrapper.code(self.outputs, sources, tuning, f"{summary}: {self.doc}")

    def _parts_kernel(self) -> str:
        lines = [
            *_head(),
            "n_lanes = n_inner * FOLD",
            "n_rounds = n_steps // FOLD",
            "blocks = tl.cdiv(n_lanes, BLOCK)",
            "lane = (pid % blocks) * BLOCK + tl.arange(0, BLOCK)[None, :]",
            "inner_mask = lane < n_lanes",
            "inner = lane % n_inner",
            "phase = lane // n_inner",
            "piece = pid // blocks % n_pieces",
            "outer = pid // (blocks * n_pieces)",
            "first = piece * width",
            "last = tl.minimum(first + width, n_rounds)",
            *self.one.start,
            PIECE_LOOP.format(step="STEPS"),
            *(f"    {line}" for line in [*TILE, *self.one.loop]),
            *self.one.count,
            "n_partial = n_outer * n_pieces * n_lanes",
            "where = (outer * n_pieces + piece) * n_lanes + lane",
        ]
        for place, state in enumerate(self.parts.states):
            lines += [*([state.first] if state.first else []), f"{state.name}_part = {state.joined}"]
            stored = f"{state.name}_part" + (".to(tl.float32, bitcast=True)" if state.is_integer else "")
            lines.append(f"tl.store({_pointer(place)}, {stored}, mask=inner_mask)")
        arguments = [*(f"{self.parts.label(root)}_ptr" for root in self.parts.roots), "partial_ptr"]
        return kernel(
            f"{self.name}_parts_kernel",
            [*arguments, *_numbers(self.parts, ["STEPS", "BLOCK", "STAGES"])],
            "Each program reduces BLOCK neighbours over one piece of the axis, FOLD steps to a row.",
            lines,
        )

    def _rest_kernel(self) -> str:
        lines = [
            *_head(),
            "blocks = tl.cdiv(n_inner, BLOCK)",
            "outer = pid // blocks",
            "inner = (pid % blocks) * BLOCK + tl.arange(0, BLOCK)[None, :]",
            "inner_mask = inner < n_inner",
            "lanes = tl.arange(0, LANES)[:, None]",
            "lane_mask = lanes < n_pieces * FOLD",
            "n_partial = n_outer * n_pieces * FOLD * n_inner",
            "where = (outer * n_pieces * FOLD + lanes) * n_inner + inner",
            "where_mask = lane_mask & inner_mask",
            *(self._loaded(place, state) for place, state in enumerate(self.parts.states)),
        ]
        if self.one.count:
            least = "tl.minimum(n_steps // FOLD - lanes // FOLD * width, width)"
            lines.append(f"count = tl.where(lane_mask, {least}, 0).to(tl.float32)")
        arguments = [
            *(f"{self.rest.label(root)}_ptr" for root in self.rest.roots), "partial_ptr",
            *(f"{self.labels[o]}_ptr" for o in self.outputs),
        ]  # fmt: skip
        return kernel(
            f"{self.name}_rest_kernel",
            [*arguments, *_numbers(self.rest, ["LANES", "BLOCK"])],
            f"{self.doc}, from the results of phases and pieces.",
            [*lines, *self.one.end, *self.rest.lines],
        )

    def _loaded(self, place: int, state: State) -> str:
        neutral = "0.0" if state.is_integer else state.neutral
        load = f"tl.load({_pointer(place)}, mask=where_mask, other={neutral})"
        return f"{state.name} = {load}" + (".to(tl.int32, bitcast=True)" if state.is_integer else "")

    def _wrapper(self) -> str:
        wrapper, name = self.wrapper, self.name
        knob = {k: f'CONFIG["{name}_{k}"]' for k in ("STEPS", "BLOCK", "PIECES", "num_warps", "num_stages")}
        sizes = [wrapper.size(v) for v in (self.space.outer, self.space.reduced, self.space.inner)]
        lines = [f"{self.labels[o]} = {wrapper.allocation(o)}" for o in self.outputs]
        lines += [
            f"n_outer, n_steps, n_inner = {', '.join(sizes)}",
            "fold = 4 if n_inner % 4 and n_steps % 4 == 0 else 1  # rows of 16 bytes' multiples, for wide loads",
            f"width = triton.cdiv(n_steps // fold, {knob['PIECES']} * {knob['STEPS']}) * {knob['STEPS']}",
            "pieces = triton.cdiv(n_steps // fold, width)",
            f"partial = torch.empty(({len(self.parts.states)}, n_outer, pieces, fold * n_inner), "
            f"device={wrapper.labels[0]}.device, dtype=torch.float32)",
        ]
        shared = ["n_outer", "n_steps", "n_inner", "pieces", "width"]
        wide = "WIDE=max(n_outer * n_steps * n_inner, partial.numel()) > 2**31"
        lines += call(
            f"{name}_parts_kernel[(n_outer * pieces * triton.cdiv(fold * n_inner, {knob['BLOCK']}),)]",
            [*(self.parts.label(root) for root in self.parts.roots), "partial", *shared,
             *wrapper.runtime_numbers(self.parts), *wrapper.constants(self.parts), f"STEPS={knob['STEPS']}",
             f"BLOCK={knob['BLOCK']}", f"STAGES={knob['num_stages']}", "FOLD=fold", wide,
             f"num_warps={knob['num_warps']}"],
            indent=4,
        )  # fmt: skip
        lines.append("lanes = triton.next_power_of_2(pieces * fold)")
        lines.append("block = max(1, 1024 // lanes)")
        outputs = [self.labels[o] for o in self.outputs]
        lines += call(
            f"{name}_rest_kernel[(n_outer * triton.cdiv(n_inner, block),)]",
            [*(self.rest.label(root) for root in self.rest.roots), "partial", *outputs, *shared,
             *wrapper.runtime_numbers(self.rest), *wrapper.constants(self.rest), "LANES=lanes", "BLOCK=block",
             "FOLD=fold", wide],
            indent=4,
        )  # fmt: skip
        lines.append(f"return {', '.join(outputs)}")
        return wrapper.function(f"{self.doc}.", lines)


def _pointer(place: int) -> str:
    """Return the pointer to a state's partial results."""
    before = ("", "n_partial + ")[place] if place < 2 else f"{place} * n_partial + "
    return f"partial_ptr + {before}where"


def _head() -> list[str]:
    return ["pid = tl.program_id(0)", "if WIDE:  # offsets need 64 bits", "    pid = pid.to(tl.int64)"]


def _numbers(body: TileBody, constants: list[str]) -> list[str]:
    return [
        "n_outer", "n_steps", "n_inner", "n_pieces", "width", *body.numbers.values(),
        *(f"{n}: tl.constexpr" for n in [*body.sizes.values(), *constants, "FOLD", "WIDE"]),
    ]  # fmt: skip
