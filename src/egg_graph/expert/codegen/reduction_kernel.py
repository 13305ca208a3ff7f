"""Write kernel and wrapper of a group that reduces one axis (or one run of axes), whole or looped."""

import re

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.group import KernelCode, Tuning
from egg_graph.expert.codegen.indexing import Unfusable
from egg_graph.expert.codegen.launch import Wrapper, call, describe, kernel
from egg_graph.expert.codegen.reductions import Space
from egg_graph.expert.codegen.tile import TileBody

LOOP = "for start in tl.range(0, {count}, {step}, num_stages=STAGES):"
ALIGNED = "{length} = {length} // ALIGN * ALIGN  # tells the compiler how lines are aligned"
"""The length of a row is often a multiple of 4, not of 16: loads have four elements where the compiler knows."""
ALIGN = "ALIGN=16 if {length} % 16 == 0 else 4 if {length} % 4 == 0 else 1"
FOLD = "FOLD: tl.constexpr = {fold} if ALIGN >= {fold} else ALIGN  # neighbours that a thread loads at once"
PIECE_LOOP = "for start in tl.range(first, last, {step}, num_stages=STAGES):"


def span_loop(span: str, begin: str, end: str, lines: list[str]) -> list[str]:
    """Write a loop over tiles of STEP elements of rows, each inside one span: what a span has in common is one number.

    Args:
        span: Elements of a span, as kernel text: a constant of the compiler.
        begin: The first tile.
        end: The tile after the last.
        lines: The loop's body, which finds `span`, `cols`, `offsets` and the masks.
    """
    return [
        f"for tile in tl.range({begin}, {end}, num_stages=STAGES):",
        f"    span = rows * (n_cols // {span}) + tile // per_span",
        "    within = tile % per_span * STEP + tl.arange(0, STEP)[None, :]",
        *([f"    cols = tile // per_span * {span} + within"] if any(re.search(r"\bcols\b", s) for s in lines) else []),
        f"    col_mask = within < {span}",
        f"    offsets = span * {span} + within",
        "    mask = row_mask & col_mask",
        *(f"    {line}" for line in lines),
    ]


def span_tiles(span: str) -> list[str]:
    """Write how many tiles a span and a row have."""
    return [
        f"per_span: tl.constexpr = ({span} + STEP - 1) // STEP",
        f"n_tiles = n_cols // {span} * per_span",
    ]


def step(span: str, block: str) -> str:
    """Write the launch's argument for the elements of a tile that lies in one span."""
    return f"STEP=min({block}, triton.next_power_of_2({span}))"


class ReductionWriter:
    """Writes one kernel: prologue, reductions, and what follows them on the same tile.

    Raises:
        Unfusable: if these nodes cannot become one kernel over this space.
    """

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str], space: Space, looped: bool, name: str) -> None:
        self.graph, self.space, self.looped, self.name = graph, space, looped, name
        self.kernel_name = f"{name}_kernel"
        self.outputs = graph.writes(nodes)
        if any(not graph[o].shapes for o in self.outputs):
            raise Unfusable("an output is no tensor")
        self.body = TileBody(graph, nodes, space, looped)
        if not self.body.reductions:
            raise Unfusable("nothing is reduced")
        self.full = [o for o in self.outputs if self.body.is_full(o)]
        self.kept = [o for o in self.outputs if o not in self.full]
        self.labels = {o: self.body.out(i, len(self.outputs)) for i, o in enumerate(self.outputs)}
        self.statements = self._looped() if looped else self._whole()
        self.wrapper = Wrapper(graph, self.body, name)
        self.doc = describe(graph, graph.ordered(nodes), self.outputs)

    def code(self, tuning: Tuning, summary: str) -> KernelCode:
        """Write the source with these knobs; `summary` begins the group's line in the module's docstring."""
        return self.wrapper.code(
            self.outputs, (self._kernel(), self._wrapper(tuning)), tuning, f"{summary}: {self.doc}"
        )

    def _whole(self) -> list[str]:
        body = self.body
        for output in self.outputs:
            index = body.names.full if output in self.full else body.names.kept
            body.store(self.labels[output], body.value(output, index), index)
        return [*self._tile_lines(""), *body.lines]

    def _looped(self) -> list[str]:
        body = self.body
        lines: list[str] = []
        for level in body.levels():
            one = body.accumulate(level)
            lines += [*one.start, *self._loop(one.loop), *one.count, *one.end]
        kept = len(body.lines)
        for output in self.kept:
            body.store(self.labels[output], body.value(output, body.names.kept), body.names.kept)
        lines += body.lines[kept:]
        if self.full:
            body.lines, body.before, body.in_spans = [], [], self.space.is_rows
            for output in self.full:
                body.store(self.labels[output], body.value(output, body.names.full), body.names.full)
            if body.span is None:
                lines += [*body.before, *self._loop(body.lines)]
            else:
                span = body.size(body.span)
                lines += [*body.before, *span_tiles(span), *span_loop(span, "0", "n_tiles", body.lines)]
        return lines

    def _loop(self, lines: list[str]) -> list[str]:
        rows = self.space.is_rows
        header = LOOP.format(count="n_cols" if rows else "n_steps", step="BLOCK" if rows else "STEPS")
        return [header, *(f"    {line}" for line in [*self._tile_lines("start + "), *lines])]

    def _tile_lines(self, start: str) -> list[str]:
        if self.space.is_rows:
            return [
                f"cols = {start}tl.arange(0, BLOCK)[None, :]",
                "col_mask = cols < n_cols",
                "offsets = rows * n_cols + cols",
                "mask = row_mask & col_mask",
            ]
        return [
            f"steps = {start}tl.arange(0, STEPS)[:, None]",
            "step_mask = steps < n_steps",
            "offsets = (outer * n_steps + steps) * n_inner + inner",
            "mask = step_mask & inner_mask",
        ]

    def _kernel(self) -> str:
        body = self.body
        constants = ["ROWS", "BLOCK"] if self.space.is_rows else ["STEPS", "BLOCK"]
        arguments = [
            *(f"{body.label(root)}_ptr" for root in body.roots),
            *(f"{self.labels[o]}_ptr" for o in self.outputs),
            *(["n_rows", "n_cols"] if self.space.is_rows else ["n_steps", "n_inner"]),
            *body.numbers.values(),
            *(f"{n}: tl.constexpr" for n in [*body.sizes.values(), *constants]),
            *(["STEP: tl.constexpr"] if body.span else []),
            *(["STAGES: tl.constexpr"] if self.looped else []),
            "ALIGN: tl.constexpr",
            "WIDE: tl.constexpr",
        ]
        head = ["pid = tl.program_id(0)", "if WIDE:  # offsets need 64 bits", "    pid = pid.to(tl.int64)"]
        head.append(ALIGNED.format(length="n_cols" if self.space.is_rows else "n_inner"))
        head += [FOLD.format(fold=body.fold)] if body.fold else []
        if self.space.is_rows:
            head += ["rows = pid * ROWS + tl.arange(0, ROWS)[:, None]", "row_mask = rows < n_rows"]
            doc = f"{self.doc}, ROWS rows a program" + (", walked in blocks." if self.looped else ", one read.")
        else:
            head += [
                "blocks = tl.cdiv(n_inner, BLOCK)",
                "outer = pid // blocks",
                "inner = (pid % blocks) * BLOCK + tl.arange(0, BLOCK)[None, :]",
                "inner_mask = inner < n_inner",
            ]
            doc = f"{self.doc}, over the middle axis of [outer, steps, inner], BLOCK neighbours a program."
        return kernel(self.kernel_name, arguments, doc, [*head, *self.statements])

    def _wrapper(self, tuning: Tuning) -> str:
        wrapper, name = self.wrapper, self.name
        rows = self.space.is_rows
        lines = [f"{self.labels[o]} = {wrapper.allocation(o)}" for o in self.outputs]
        if rows:
            lines.append(f"n_rows, n_cols = {wrapper.size(self.space.outer)}, {wrapper.size(self.space.reduced)}")
            numbers, numel = ["n_rows", "n_cols"], "n_rows * n_cols"
        else:
            sizes = [wrapper.size(v) for v in (self.space.outer, self.space.reduced, self.space.inner)]
            lines.append(f"n_outer, n_steps, n_inner = {', '.join(sizes)}")
            numbers, numel = ["n_steps", "n_inner"], "n_outer * n_steps * n_inner"
        numbers += wrapper.runtime_numbers() + wrapper.constants()
        knob = {k: f'CONFIG["{name}_{k}"]' for k in tuning.config}
        if rows:
            numbers += [f"ROWS={knob['ROWS']}", f"BLOCK={knob.get('BLOCK', 'triton.next_power_of_2(n_cols)')}"]
            lines.append(f"grid = (triton.cdiv(n_rows, {knob['ROWS']}),)")
        else:
            numbers += [f"STEPS={knob.get('STEPS', 'triton.next_power_of_2(n_steps)')}", f"BLOCK={knob['BLOCK']}"]
            lines.append(f"grid = (n_outer * triton.cdiv(n_inner, {knob['BLOCK']}),)")
        if self.body.span:
            numbers.append(step(wrapper.size(self.body.span), knob["BLOCK"]))
        if self.looped:
            numbers.append(f"STAGES={knob['num_stages']}")
        numbers.append(ALIGN.format(length="n_cols" if rows else "n_inner"))
        numbers += [f"WIDE={numel} > 2**31", f"num_warps={knob['num_warps']}"]
        arguments = [*wrapper.labels, *(self.labels[o] for o in self.outputs), *numbers]
        lines += call(f"{self.kernel_name}[grid]", arguments, indent=4)
        lines.append(f"return {', '.join(self.labels[o] for o in self.outputs)}")
        return wrapper.function(f"{self.doc}.", lines)
