"""Recognise a cumulative sum or product from either end, with the pointwise work before and after it."""

from dataclasses import dataclass

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.expressions import FLOATS, INTEGER, is_pointwise
from egg_graph.expert.codegen.group import Group


@dataclass(frozen=True)
class Scan:
    """One scan along a dimension, in a group of nodes that all have its shape."""

    node: Node
    source: str
    """The node or placeholder that is scanned, before any flip."""
    dim: int
    reverse: bool
    result: str
    """The node that holds the scan, after any flip. The kernel runs over its shape."""
    before: tuple[str, ...]
    """Pointwise nodes that make the source."""
    after: tuple[str, ...]
    """Pointwise nodes over the result."""
    exclusive: tuple[str, ...] = ()
    """Where each result leaves its own number out: what drops the last number and puts a zero first."""

    @property
    def is_product(self) -> bool:
        return self.node.base == "cumprod"

    @property
    def is_integer(self) -> bool:
        return self.node.dtype in INTEGER


def scan_at(graph: CapturedGraph, start: str, free: frozenset[str]) -> Scan | None:
    """Return the scan at `start` with what can be fused around it, or None."""
    node = graph[start]
    if graph.is_placeholder(start) or node.base not in ("cumsum", "cumprod") or node.rank == 0:
        return None
    if node.dtype not in (*FLOATS, "int64", "int32"):
        return None
    dim = int(node.args[1]) % node.rank  # type: ignore[arg-type]
    source, result, reverse = node.inputs[0], start, False
    first, last = _flip_before(graph, source, dim, start, free), _flip_after(graph, start, dim, free)
    if first and last:
        source, result, reverse = graph[first].inputs[0], last, True
    if graph[source].dtype == "float64":
        return None
    if exclusive := _exclusive(graph, node, dim, free):
        return Scan(node, graph[source].inputs[0], dim, False, graph.users[start][0], (), (), exclusive)
    flips = {first, last} if reverse else set()
    before = _before(graph, source, node, {start, *flips} - {None}, free)  # type: ignore[arg-type]
    after = _after(graph, result, node, {start, *flips, *before} - {None}, free)  # type: ignore[arg-type]
    return Scan(node, source, dim, reverse, result, before, after)


def group_of(graph: CapturedGraph, scan: Scan, playbook: str, variant: str) -> Group:
    """Make the group of a scan and of what is fused around it."""
    nodes = {scan.node.name, scan.result, *scan.before, *scan.after, *scan.exclusive}
    if scan.reverse:
        nodes.add(scan.node.inputs[0])
    return Group.of(graph, playbook, nodes, variant)


def _exclusive(graph: CapturedGraph, node: Node, dim: int, free: frozenset[str]) -> tuple[str, ...]:
    """Return what makes `cat([zero, cumsum(x without its last)])` of a cumulative sum, in order; else ()."""
    cut, users = graph[node.inputs[0]], graph.users[node.name]
    if node.base != "cumsum" or len(users) != 1 or graph[users[0]].base != "cat" or cut.base != "slice":
        return ()
    joined = graph[users[0]]
    private = {cut.name, joined.name} <= free and graph.users[cut.name] == (node.name,)
    if not private or {cut.name, node.name} & graph.returned or joined.inputs[1:] != (node.name,):
        return ()
    zero, whole = graph[joined.inputs[0]], graph[cut.inputs[0]]
    along = joined.args[1] if len(joined.args) > 1 else joined.kwargs.get("dim", 0)
    same = whole.shapes == joined.shapes and whole.dtype == node.dtype == joined.dtype
    is_zero = zero.base == "zeros_like" and set(zero.size(dim)) == {1}
    if not same or not is_zero or along not in (dim, dim - node.rank) or not _drops_last(cut, dim):
        return ()
    inside = {cut.name, node.name, joined.name}
    while zero.name in free and zero.name not in graph.returned and set(graph.users[zero.name]) <= inside:
        inside.add(zero.name)
        if graph[zero.inputs[0]].base not in ("unsqueeze", "select", "slice"):
            break
        zero = graph[zero.inputs[0]]  # gives the zero its shape, and nothing else
    return graph.ordered(inside - {node.name})


def _drops_last(cut: Node, dim: int) -> bool:
    """Return whether a slice begins at the first element of a dimension and takes each; its size tells the rest."""
    return cut.args[1] in (dim, dim - cut.rank) and cut.args[2] == 0 and (len(cut.args) < 5 or cut.args[4] == 1)


def _flip_before(graph: CapturedGraph, name: str, dim: int, scan: str, free: frozenset[str]) -> str | None:
    """Return the flip that feeds the scan and nothing else, or None."""
    usable = name in free and name not in graph.returned and graph.users[name] == (scan,)
    return name if usable and _flips(graph[name], dim) else None


def _flip_after(graph: CapturedGraph, scan: str, dim: int, free: frozenset[str]) -> str | None:
    """Return the flip that is the scan's only reader, or None."""
    users = graph.users[scan]
    usable = len(users) == 1 and users[0] in free and scan not in graph.returned
    return users[0] if usable and _flips(graph[users[0]], dim) else None


def _flips(node: Node, dim: int) -> bool:
    if node.base != "flip" or not isinstance(node.args[1], list):
        return False
    return [int(d) % node.rank for d in node.args[1]] == [dim]  # type: ignore[arg-type]


def _fits(graph: CapturedGraph, node: Node, to: Node) -> bool:
    """Return whether a node is pointwise over the scan's shape, with operands of that shape or of one element."""
    if not is_pointwise(node) or node.shapes != to.shapes:
        return False
    operands = [graph[name] for name in node.inputs]
    return all(o.dtype != "float64" and (o.shapes == to.shapes or set(o.numel) == {1}) for o in operands)


def _before(graph: CapturedGraph, source: str, scan: Node, inside: set[str], free: frozenset[str]) -> tuple[str, ...]:
    """Collect the pointwise nodes that only the group reads, from the source backwards."""
    found: set[str] = set()
    waiting = [source]
    while waiting:
        name = waiting.pop()
        private = name in free and name not in graph.returned and set(graph.users[name]) <= inside | found
        if private and _fits(graph, graph[name], scan):
            found.add(name)
            waiting.extend(graph[name].inputs)
    return graph.ordered(found)


def _after(graph: CapturedGraph, result: str, scan: Node, inside: set[str], free: frozenset[str]) -> tuple[str, ...]:
    """Collect pointwise nodes over the result, as many as leave the group one output."""
    chain = [result]
    for node in graph.nodes[graph.position[result] - len(graph.placeholders) + 1 :]:
        usable = node.name in free and node.is_float and _fits(graph, node, scan)
        if usable and any(name in chain for name in node.inputs) and graph.is_convex({*inside, *chain, node.name}):
            chain.append(node.name)
    while len(graph.writes({*inside, *chain})) > 1 and len(chain) > 1:
        chain.pop()
    return tuple(chain[1:])
