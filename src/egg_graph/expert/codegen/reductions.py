"""Reduction operators: the space that they reduce over, and the expressions that reduce a tile."""

from dataclasses import dataclass
from math import prod

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.indexing import Run, Unfusable, Vector, merged

REDUCTIONS = frozenset({"sum", "mean", "amax", "amin", "var", "argmax", "argmin", "gather"})
IDENTITY = {"amax": 'float("-inf")', "amin": 'float("inf")', "argmax": 'float("-inf")', "argmin": 'float("inf")'}


@dataclass(frozen=True)
class Space:
    """The reduced tensor seen as [outer, reduced, inner]: three joint sizes, each with one entry per capture."""

    outer: Vector
    reduced: Vector
    inner: Vector

    @property
    def is_rows(self) -> bool:
        """Whether the reduced elements are contiguous in memory and there is more than one result."""
        return set(self.inner) == {1} and not self.is_full

    @property
    def is_full(self) -> bool:
        """Whether the whole tensor becomes one number."""
        return set(self.inner) == {1} and set(self.outer) == {1}

    @property
    def numel(self) -> Vector:
        return tuple(prod(v) for v in zip(self.outer, self.reduced, self.inner, strict=True))

    def pattern(self, outer: bool, reduced: bool, inner: bool) -> tuple[Run, ...]:
        """Return how an operand that varies along these of the three broadcasts to the whole (see `indexing.runs`)."""
        return merged([(outer, self.outer), (reduced, self.reduced), (inner, self.inner)])

    def lines_together(self, pattern: tuple[Run, ...]) -> Vector | None:
        """Return how many lines of the inner axis, whole groups of an outer one's, share an element of an operand.

        None where an operand that broadcasts so is not constant along the inner axis.
        """
        if [kept for kept, _ in pattern] != [True, False]:
            return None
        lines = [outer * reduced for outer, reduced in zip(self.outer, self.reduced, strict=True)]
        together = tuple(n // m if n % m == 0 else 0 for n, m in zip(lines, pattern[0][1], strict=True))
        whole = all(n and reduced % n == 0 for n, reduced in zip(together, self.reduced, strict=True))
        return together if whole else None


def is_reduction(node: Node) -> bool:
    """Return whether a node is a reduction that a kernel here may compute (`check` says whether it does)."""
    return node.base in REDUCTIONS and bool(node.shapes)


def space_of(graph: CapturedGraph, node: Node) -> Space:
    """Return the space of a reduction.

    Raises:
        Unfusable: if the reduced dimensions are not neighbours, or reduce nothing.
    """
    source = graph[node.inputs[0]]
    dims = dimensions_of(node, source.rank)
    sized = [d for d in range(source.rank) if set(source.size(d)) != {1}]
    reduced = [d for d in sized if d in dims]
    if not reduced:
        raise Unfusable(f"{node.op} reduces dimensions of size 1")
    first, last = reduced[0], reduced[-1]
    if any(d not in dims for d in sized if first < d < last):
        raise Unfusable(f"{node.op} reduces dimensions that are no neighbours")
    return Space(
        outer=tuple(prod(s[:first]) for s in source.shapes),
        reduced=tuple(prod(s[first : last + 1]) for s in source.shapes),
        inner=tuple(prod(s[last + 1 :]) for s in source.shapes),
    )


def dimensions_of(node: Node, rank: int) -> set[int]:
    """Return the dimensions that a reduction of a tensor with this rank removes."""
    raw = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    if raw is None or raw == []:
        return set(range(rank))
    return {int(d) % rank for d in (raw if isinstance(raw, list) else [raw])}  # type: ignore[arg-type]


def correction(node: Node) -> float:
    """Return the correction of a variance: 1 for Bessel's, 0 for none."""
    raw = node.kwargs.get("correction", 1)
    return float(raw) if isinstance(raw, int | float) else 1.0


def check(graph: CapturedGraph, node: Node) -> None:
    """Refuse a reduction that the tile code does not compute.

    Raises:
        Unfusable: with the reason.
    """
    source = graph[node.inputs[0]]
    if node.base == "gather":
        index = graph[node.inputs[1]] if len(node.inputs) > 1 else None
        dim = int(str(node.args[1])) % source.rank
        if index is None or set(index.size(dim)) != {1}:
            raise Unfusable("gather picks more than one element a row")
        if any(index.size(d) != source.size(d) for d in range(source.rank) if d != dim):
            raise Unfusable("gather's index is smaller than its source")
    elif not source.is_float and node.base not in ("sum", "mean"):
        raise Unfusable(f"{node.op} of {source.dtype}")
    elif source.dtype == "float64" or node.dtype == "float64":
        raise Unfusable("kernels compute in fp32")


def whole_tile(
    node: Node, value: str, mask: str, axis: int, count: str, coordinate: str, picked: str = ""
) -> list[str]:
    """Return expressions that reduce a tile with the whole reduced axis; the last one is the result.

    The caller assigns all but the last to variables, in order; `{0}` stands for the variable of the first.
    """
    keep = f"axis={axis}, keep_dims=True"
    if node.base == "gather":
        return [f"tl.sum(tl.where({coordinate} == {picked}, {value}, 0.0), {keep})"]
    if node.base in ("sum", "mean"):
        total = f"tl.sum(tl.where({mask}, {value}, 0), {keep})"
        return [total if node.base == "sum" else f"{total} / {count}"]
    if node.base == "var":
        mean = f"tl.sum(tl.where({mask}, {value}, 0.0), {keep}) / {count}"
        deviation = f"tl.where({mask}, {value} - {{0}}, 0.0)"
        bessel = correction(node)
        divisor = count if bessel == 0 else f"({count} - {bessel:g})"
        return [mean, deviation, f"tl.sum({{1}} * {{1}}, {keep}) / {divisor}"]
    filled = f"tl.where({mask}, {value}, {IDENTITY[node.base]})"
    function = {"amax": "max", "amin": "min"}.get(node.base, node.base)
    return [f"tl.{function}({filled}, {keep})"]
