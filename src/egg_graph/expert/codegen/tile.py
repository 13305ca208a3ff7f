"""Write the tile of a reduction kernel: [rows, columns] where the reduced axis is contiguous, else [steps, inner].

There are two structures. Whole: the reduced axis fits into registers and is read once. Looped: it is walked in blocks,
once for each level of dependent reductions. A running maximum with its sum of exponentials (online softmax, arXiv
1805.02867) and a running mean with its variance (Welford) take one pass instead of two.
"""

from dataclasses import dataclass, replace

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.fusion import Body, is_flat_view
from egg_graph.expert.codegen.indexing import OFFSETS, Index, Run, Unfusable, Vector, merged
from egg_graph.expert.codegen.reductions import IDENTITY, Space, check, correction, is_reduction, space_of, whole_tile

SHORTEST_SPAN = 1024
"""Neighbours of a row with one common operand (a channel's pixels) from which on a loop stays among them."""
LOWEST = "-3.4e38"
"""Start of a running maximum that values are shifted by; finite, so that no infinity is subtracted from another."""


@dataclass(frozen=True)
class State:
    """One running value of a pass, which every lane of the tile has. `end` joins the lanes to the result."""

    name: str
    joined: str
    """Expression that joins the lanes to one state of the whole pass."""
    neutral: str
    """The state of no elements."""
    first: str = ""
    """A statement ahead of `joined`, after the earlier states were joined to `<name>_part`."""
    is_integer: bool = False
    """Whether the state is int32, not fp32."""


@dataclass(frozen=True)
class Pass:
    """One pass over the reduced axis, as lines of a kernel."""

    start: list[str]
    """Ahead of the loop: the running values of no elements."""
    loop: list[str]
    count: list[str]
    """After the loop: how many elements each lane has seen, where `end` and the states' `joined` use it."""
    end: list[str]
    """After `count`: the results, from the lanes' running values."""


@dataclass(frozen=True)
class Names:
    """The names of a tile's axes and masks."""

    full: Index
    """Index of every element of the tile."""
    kept: Index
    """Index with one element for each result."""
    along: Index
    """Index along the reduced axis alone."""
    across: Index | None
    """Index along the inner axis alone; None for rows."""
    outer: Index | None
    """Index along the outer axis alone; None for rows."""
    axis: int
    """The tile's reduced axis."""
    count: str
    """Length of the reduced axis."""
    limit: str
    """Mask along the reduced axis."""
    shape: str
    """Shape of the tile."""
    step: str
    """Length of the tile along the reduced axis."""
    lanes: str
    """Places of the tile along the reduced axis."""
    begun: str
    """Elements of the reduced axis that a pass has behind it at the top of its loop."""
    length: str
    """Elements of the reduced axis that one pass of one program walks over."""
    picked: str
    """Flat index of one element for each result, by its `{place}` along the reduced axis."""

    @property
    def counted(self) -> str:
        """The statement that counts, after a pass, the elements that each lane has seen."""
        return f"count = (({self.length} + {self.step} - 1 - {self.lanes}) // {self.step}).to(tl.float32)"


ROWS = Names(
    full=OFFSETS,
    kept=Index("rows", "row_mask"),
    along=Index("cols", "col_mask", tile=True),
    across=None,
    outer=None,
    axis=1,
    count="n_cols",
    limit="col_mask",
    shape="[ROWS, BLOCK]",
    step="BLOCK",
    lanes="tl.arange(0, BLOCK)[None, :]",
    begun="start",
    length="n_cols",
    picked="rows * n_cols + {place}",
)
SPAN = Index("span", "row_mask", tile=True)
"""Index of the span of each row that a tile lies in."""
PIECES = replace(ROWS, shape="[1, BLOCK]", begun="(start - first)", length="(last - first)")
"""A row of which each program walks over one piece, from `first` to `last`."""
COLUMNS = Names(
    full=OFFSETS,
    kept=Index("(outer * n_inner + inner)", "inner_mask"),
    along=Index("steps", "step_mask", tile=True),
    across=Index("inner", "inner_mask"),
    outer=Index("outer"),
    axis=0,
    count="n_steps",
    limit="step_mask",
    shape="[STEPS, BLOCK]",
    step="STEPS",
    lanes="tl.arange(0, STEPS)[:, None]",
    begun="start",
    length="n_steps",
    picked="(outer * n_steps + {place}) * n_inner + inner",
)


class TileBody(Body):
    """Writes the statements of a reduction kernel over one tile or a loop of tiles.

    Raises:
        Unfusable: if a reduction among the nodes has another space or is not supported.
    """

    def __init__(
        self, graph: CapturedGraph, nodes: frozenset[str], space: Space, looped: bool, names: Names | None = None
    ) -> None:
        super().__init__(graph, nodes, fill=True)
        self.space = space
        self.names = names or (ROWS if space.is_rows else COLUMNS)
        self.looped = looped
        self.in_spans = False
        """Whether the loop that is written may walk a row span by span."""
        self.span: Vector | None = None
        """The elements of a span, where that loop does: neighbours in a row that have one operand in common."""
        self.results: dict[str, str] = {}
        self.deviations: dict[str, tuple[str, str]] = {}
        """Variables of a variance of the whole tile: about the mean, and each element's distance from it."""
        self.states: list[State] = []
        """The running values of the passes written so far."""
        self.fold = 0
        """Neighbours that share one running value, where rows are aligned to them; 0 where none do."""
        self.picks: dict[Index, str] = {}
        """Indexes of single elements of the reduced axis, one for each result, with the variable of their place."""
        self.reductions = [n for n in graph.nodes if n.name in nodes and is_reduction(n)]
        for node in self.reductions:
            check(graph, node)
            if space_of(graph, node) != space:
                raise Unfusable(f"{node.name} reduces another space")
        if looped:
            self.reserve(node.name for node in self.reductions)

    @property
    def walked(self) -> list[Node]:
        """The reductions that need every element: a loop picks single ones where they lie, without a pass."""
        return [n for n in self.reductions if not (self.looped and n.base == "gather")]

    def project_special(self, pattern: tuple[Run, ...], index: Index) -> Index | None:
        along = self.names.along
        if index in self.picks:
            along = Index(self.picks[index], index.mask)
        elif index != self.names.full:
            return None
        for flags, name in (
            ((True, False, True), self.names.kept),
            ((False, True, False), along),
            ((False, False, True), self.names.across),
            ((True, False, False), self.names.outer),
        ):
            if name is not None and pattern == self.space.pattern(*flags):
                return name
        return self._by_step(pattern, along) if self.names is COLUMNS else None

    def _by_step(self, pattern: tuple[Run, ...], along: Index) -> Index | None:
        """Find an operand that is constant along the inner axis once a step, or once for several: not an element."""
        together = self.space.lines_together(pattern)
        if together is None:
            return None
        line = f"(outer * n_steps + {along.text})"
        text = line if set(together) == {1} else f"{line} // {self.size(together)}"
        return Index(text, along.mask, along.tile)

    def _decode(self, pattern: tuple[Run, ...], index: Index) -> Index:
        """Find an operand that is constant along a row, or along a span of it, once a row or span: not an element."""
        kept, size = pattern[-1]
        if index != self.names.full or self.names.across is not None or kept:
            return super()._decode(pattern, index)
        for each, length in ((self.names.kept, self.space.reduced), (SPAN, self._span(size))):
            if length is not None and _divides(length, size):
                rest = tuple(s // n for s, n in zip(size, length, strict=True))
                shorter = merged([*pattern[:-1], (False, rest)])
                return each if all(own for own, _ in shorter) else super()._decode(shorter, each)
        return super()._decode(pattern, index)

    def _span(self, size: Vector) -> Vector | None:
        """Return the span of the loop that is written; the first operand that is constant along a long one sets it."""
        is_long = SHORTEST_SPAN <= size[0] < self.space.reduced[0]
        if self.in_spans and self.span is None and is_long and _divides(size, self.space.reduced):
            self.span = size
        return self.span

    def reduce(self, node: Node, index: Index) -> str:
        if not is_reduction(node):
            raise Unfusable(f"{node.op} is neither pointwise nor a reduction")
        if index != self.names.kept:
            raise Unfusable(f"{node.name} is wanted at other places than its own")
        if node.name not in self.results:
            if not self.looped:
                self.results[node.name] = self._whole(node)
            elif node.base == "gather":
                self.results[node.name] = self._picked(node)
            else:
                raise Unfusable(f"{node.name} is wanted before it is known")
        return self.results[node.name]

    def _picked(self, node: Node) -> str:
        """Compute the one element that each result picks, at its own place."""
        names = self.names
        place = self.at(node.inputs[1], self.graph[node.inputs[1]].shapes, names.kept)
        inside = f"{names.kept.mask} & ({place} >= 0) & ({place} < {names.count})"
        mask = self.assign(f"{node.name}_mask", inside, names.kept)
        at = Index(f"({names.picked.format(place=place)})", mask)
        self.picks[at] = place
        return self.value(node.inputs[0], at)

    def is_full(self, name: str) -> bool:
        """Return whether an output has one element for each of the tile's, else one for each result.

        Raises:
            Unfusable: if it has neither.
        """
        node = self.graph[name]
        kept = tuple(o * i for o, i in zip(self.space.outer, self.space.inner, strict=True))
        if node.numel == self.space.numel:
            return True
        if node.numel != kept:
            raise Unfusable(f"{name} fits neither the tile nor its results")
        return False

    def _whole(self, node: Node) -> str:
        names = self.names
        twin = next((n for n in self.reductions if n.base == "var" and n.inputs[0] == node.inputs[0]), None)
        if node.base == "mean" and twin is not None:
            self.reduce(twin, names.kept)
            near, apart = self.deviations[twin.name]
            # where the mean is large against the spread, a sum of distances is rounded less than one of elements
            distance = f"tl.sum({apart}, axis={names.axis}, keep_dims=True)"
            return self.assign(node.name, f"{near} + {distance} / {names.count}", names.kept)
        value = self.value(node.inputs[0], names.full)
        picked = self.at(node.inputs[1], self.graph[node.inputs[1]].shapes, names.kept) if node.base == "gather" else ""
        steps = whole_tile(node, value, names.limit, names.axis, names.count, names.along.text, picked)
        variables: list[str] = []
        for suffix, text in zip(("_mean", "_deviation"), steps[:-1], strict=False):
            variables.append(self.assign(node.name + suffix, text.format(*variables), names.full))
        if node.base == "var":
            self.deviations[node.name] = variables[0], variables[1]
        return self.assign(node.name, steps[-1].format(*variables), names.kept)

    def levels(self) -> list[list[Node]]:
        """Group the reductions by the pass that can compute them."""
        level: dict[str, int] = {}
        for node in self.walked:
            before = self._before(node)
            online = self.online_partner(node)
            level[node.name] = level[online] if online else 1 + max((level[b] for b in before), default=-1)
        return [[n for n in self.walked if level[n.name] == k] for k in range(1 + max(level.values(), default=-1))]

    def _before(self, node: Node) -> set[str]:
        """Return the reductions that this one depends on."""
        found: set[str] = set()
        walked = {n.name for n in self.walked}
        seen: set[str] = set()
        frontier = [i for i in node.inputs if i in self.inside]
        while frontier:
            name = frontier.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in walked:
                found.add(name)
            frontier.extend(i for i in self.graph[name].inputs if i in self.inside)
        return found

    def online_partner(self, node: Node) -> str | None:
        """Return the `amax` m if this node sums exp(x - m) over the same x, so that both take one pass; else None."""
        graph = self.graph
        if node.base != "sum" or (exp := graph[node.inputs[0]]).base != "exp" or exp.name not in self.inside:
            return None
        sub = graph[exp.inputs[0]]
        if sub.base != "sub" or sub.name not in self.inside or len(sub.inputs) != 2:
            return None
        top = self._through_views(sub.inputs[1])
        if graph[top].base != "amax" or top not in self.inside:
            return None
        return top if self._through_views(graph[top].inputs[0]) == self._through_views(sub.inputs[0]) else None

    def _through_views(self, name: str) -> str:
        while name in self.inside and is_flat_view(self.graph[name]):
            name = self.graph[name].inputs[0]
        return name

    def accumulate(self, nodes: list[Node]) -> Pass:
        """Write one pass.

        Every lane of the tile keeps its own running value, so that the tile is reduced once, after the loop.
        """
        outside, self.lines, self.before = self.lines, [], []
        start: list[str] = []
        end: list[str] = []
        partners = {self.online_partner(n): n for n in nodes if self.online_partner(n)}
        variances = [n for n in nodes if n.base == "var"]
        if variances:
            self.emit(f"one_of = 1.0 / ({self.names.begun} // {self.names.step} + 1)", self.names.full)
        for node in sorted(nodes, key=lambda n: n.base != "var"):
            twin = next((v for v in variances if node.base == "mean" and v.inputs[0] == node.inputs[0]), None)
            if node.name in partners:
                self._online_softmax(node, partners[node.name], start, end)
            elif twin is not None:
                end.append(f"{node.name} = {twin.name}_total")
                self.results[node.name] = node.name
            elif node not in partners.values():
                self._running(node, start, end)
        loop, before = self.lines, self.before
        self.lines, self.before = outside, None
        self.forget_tile()
        return Pass([*before, *start], loop, [self.names.counted] if variances else [], end)

    def _running(self, node: Node, start: list[str], end: list[str]) -> None:
        names, name = self.names, node.name
        value = self.value(node.inputs[0], names.full)
        keep = f"axis={names.axis}, keep_dims=True"
        acc = f"{name}_acc"
        zeros = f"tl.zeros({names.shape}, {'tl.float32' if node.is_float else 'tl.int64'})"
        mask = names.full.mask
        if node.base in ("sum", "mean"):
            start.append(f"{acc} = {zeros}")
            self.emit(f"{acc} += tl.where({mask}, {value}, 0)", names.full)
            end.append(f"{name} = tl.sum({acc}, {keep})" + (f" / {names.count}" if node.base == "mean" else ""))
            self.states.append(State(acc, f"tl.sum({acc}, {keep})", "0.0"))
        elif node.base == "var":
            self._welford(name, value, correction(node), start, end)
        elif node.base in ("amax", "amin"):
            function = {"amax": "max", "amin": "min"}[node.base]
            start.append(f"{acc} = tl.full({names.shape}, {IDENTITY[node.base]}, tl.float32)")
            filled = f"tl.where({mask}, {value}, {IDENTITY[node.base]})"
            self.emit(f"{acc} = tl.{function}imum({acc}, {filled})", names.full)
            end.append(f"{name} = tl.{function}({acc}, {keep})")
            self.states.append(State(acc, f"tl.{function}({acc}, {keep})", IDENTITY[node.base]))
        else:
            self._running_argument(node, value, start, end)
        self.results[name] = name

    def _running_argument(self, node: Node, value: str, start: list[str], end: list[str]) -> None:
        """Keep the best value and its place in each lane; of equal values the first place wins, as in PyTorch."""
        names, name = self.names, node.name
        identity = IDENTITY[node.base]
        better, function = (">", "max") if node.base == "argmax" else ("<", "min")
        keep = f"axis={names.axis}, keep_dims=True"
        start.append(f"{name}_best = tl.full({names.shape}, {identity}, tl.float32)")
        start.append(f"{name}_place = tl.zeros({names.shape}, tl.int32)")
        self.emit(f"{name}_new = tl.where({names.full.mask}, {value}, {identity})", names.full)
        place = f"tl.where({name}_new {better} {name}_best, {names.along.text}, {name}_place)"
        self.emit(f"{name}_place = {place}", names.full)
        best = f"tl.where({name}_new {better} {name}_best, {name}_new, {name}_best)"
        self.emit(f"{name}_best = {best}", names.full)
        is_top = f"{name}_is_top"
        self.states += [
            State(f"{name}_best", f"tl.{function}({name}_best, {keep})", identity),
            State(
                f"{name}_place", f"tl.min(tl.where({is_top}, {name}_place, 2147483647), {keep})", "0",
                f"{is_top} = {name}_best == {name}_best_part", is_integer=True,
            ),
        ]  # fmt: skip
        end.append(f"{name}_top = tl.{function}({name}_best, {keep})")
        end.append(f"{name} = tl.min(tl.where({name}_best == {name}_top, {name}_place, 2147483647), {keep})")

    def _welford(self, name: str, value: str, bessel: float, start: list[str], end: list[str]) -> None:
        """Keep mean and squared deviations in each lane. Lanes with elements left have all seen one for each round.

        The lanes' means are joined as distances from about their mean: where it is large against the spread, their sum
        and its division would be off by more than rounding the mean is.
        """
        names = self.names
        keep = f"axis={names.axis}, keep_dims=True"
        mean, m2 = f"{name}_mean", f"{name}_m2"
        start += [f"{mean} = tl.zeros({names.shape}, tl.float32)", f"{m2} = tl.zeros({names.shape}, tl.float32)"]
        self.emit(f"{name}_delta = tl.where({names.full.mask}, {value} - {mean}, 0.0)", names.full)
        self.emit(f"{mean} += {name}_delta * one_of", names.full)
        self.emit(f"{m2} += {name}_delta * tl.where({names.full.mask}, {value} - {mean}, 0.0)", names.full)
        divisor = names.count if bessel == 0 else f"({names.count} - {bessel:g})"
        near, apart = f"{name}_near", f"{name}_apart"
        about, distance = f"{near} = tl.sum(count * {mean}, {keep})", f"tl.sum(count * ({mean} - {near}), {keep})"
        end += [
            f"{about} / {names.count}",
            f"{name}_total = {near} + {distance} / {names.count}",
            f"{apart} = {mean} - {name}_total",
            f"{name} = tl.sum({m2} + count * {apart} * {apart}, {keep}) / {divisor}",
        ]
        every = f"tl.sum(count, {keep})"
        self.states += [
            State(mean, f"{near} + {distance} / {every}", "0.0", f"{about} / {every}"),
            State(m2, f"tl.sum({m2} + count * {apart} * {apart}, {keep})", "0.0", f"{apart} = {mean} - {mean}_part"),
        ]

    def _online_softmax(self, top: Node, total: Node, start: list[str], end: list[str]) -> None:
        """Keep maximum and sum of exponentials in each lane; in rows, neighbours of one thread share a lane.

        With a lane for each element, every element costs two exponentials, and 16-bit rows wait for those.
        """
        names = self.names
        value = self.value(top.inputs[0], names.full)
        keep = f"axis={names.axis}, keep_dims=True"
        m, s = f"{top.name}_acc", f"{total.name}_acc"
        shape, highest, added = names.shape, f"{m}_of", f"tl.exp({m}_of - {m}_new)"
        values = f'tl.where({names.full.mask}, {value}, float("-inf"))'
        if names.across is None:
            self.fold = 4 if any(self.graph[r].dtype == "float32" for r in self.roots) else 8
            shape = names.shape.replace("BLOCK", "BLOCK // FOLD")
            values = f"tl.reshape({values}, {shape[:-1]}, FOLD])"
            highest, added = f"tl.max({m}_of, axis=2)", f"tl.sum(tl.exp({m}_of - {m}_new[:, :, None]), axis=2)"
        start += [f"{m} = tl.full({shape}, {LOWEST}, tl.float32)", f"{s} = tl.zeros({shape}, tl.float32)"]
        self.emit(f"{m}_of = {values}", names.full)
        self.emit(f"{m}_new = tl.maximum({m}, {highest})", names.full)
        self.emit(f"{s}_new = {added}", names.full)
        self.emit(f"{s} = {s} * tl.exp({m} - {m}_new) + {s}_new", names.full)
        self.emit(f"{m} = {m}_new", names.full)
        end.append(f"{top.name} = tl.max({m}, {keep})")
        end.append(f"{total.name} = tl.sum({s} * tl.exp({m} - {top.name}), {keep})")
        self.states += [
            State(m, f"tl.max({m}, {keep})", LOWEST),
            State(s, f"tl.sum({s} * tl.exp({m} - {m}_part), {keep})", "0.0"),
        ]
        self.results[top.name], self.results[total.name] = top.name, total.name


def _divides(factor: Vector, size: Vector) -> bool:
    """Return whether a size is a multiple of another in every capture."""
    return all(s % f == 0 for f, s in zip(factor, size, strict=True))
