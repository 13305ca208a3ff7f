"""Fold an average over all pixels into the group norm before it: only each channel's mean and variance are left.

A group norm and what follows it by channel are linear, once the statistics are known, so the average passes through
them. The statistics of a group follow from its channels' means m_c and variances v_c over equally many pixels:

    mean = mean_c(m_c),   variance = mean_c(v_c) + variance_c(m_c)

So the normalized tensor is never written, and what makes x need not write x: it can leave the two moments.
"""

from dataclasses import dataclass

from pydantic import JsonValue

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.capture.rewrite import Shapes, are_new, is_private, new_node, number, refer, replace

STEPS = ("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor")


@dataclass(frozen=True)
class Norm:
    """A group norm without its weight: (view(x) - mean) * rsqrt(var + eps), seen as x again."""

    x: Node
    grouped: Node
    """x as [samples, groups, elements of a group]."""
    shifted: Node
    """The variance, and eps."""
    gone: frozenset[str]
    """Its nodes."""


def fold_averaged_norms(graph: CapturedGraph) -> CapturedGraph:
    """Return the graph with every average over the pixels of a group norm folded, and each fold's proof."""
    for end in graph.nodes:
        if not _averages_pixels(graph, end):
            continue
        steps = _steps_before(graph, end)
        norm = _norm_at(graph, graph[steps[0].inputs[0] if steps else end.inputs[0]])
        if norm is None:
            continue
        made = _folded(norm, steps, end)
        if are_new(graph, made):
            gone = {*norm.gone, *(step.name for step in steps)}
            return fold_averaged_norms(replace(graph, gone, end.name, made, _proof(norm)))
    return graph


def _averages_pixels(graph: CapturedGraph, end: Node) -> bool:
    if end.op != "aten.mean.dim" or end.kwargs or end.dtype != "float32" or not isinstance(end.args[1], list):
        return False
    rank = graph[end.inputs[0]].rank
    dims = {int(str(d)) % rank for d in end.args[1]}
    return rank > 2 and dims in ({*range(2, rank)}, {*range(1, rank)})


def _steps_before(graph: CapturedGraph, end: Node) -> list[Node]:
    """Return the steps by channel before the average, the first first."""
    steps: list[Node] = []
    source = graph[end.inputs[0]]
    while _is_step(graph, source):
        steps.insert(0, source)
        source = graph[source.inputs[0]]
    return steps


def _is_step(graph: CapturedGraph, node: Node) -> bool:
    """Return whether a node adds or multiplies a number, or one number for each channel."""
    if node.op.removeprefix("aten.") not in STEPS or node.kwargs or not is_private(graph, node):
        return False
    if node.args[0] != {"node": node.inputs[0]} or graph[node.inputs[0]].shapes != node.shapes:
        return False
    return all(_by_channel(graph[name], node) for name in node.inputs[1:])


def _by_channel(operand: Node, of: Node) -> bool:
    """Return whether an operand of a step has one number for each channel, or one in all."""
    one = (1,) * len(of.shapes)
    line = operand.rank == of.rank - 1 and operand.size(0) in (of.size(1), one) and operand.numel == operand.size(0)
    return operand.dtype == "float32" and (not operand.rank or line)


def _norm_at(graph: CapturedGraph, back: Node) -> Norm | None:
    """Recognise the group norm whose result, in the shape of x, is `back`."""
    if back.base not in ("view", "reshape") or not is_private(graph, back):
        return None
    scaled = graph[back.inputs[0]]
    if scaled.base != "mul" or not is_private(graph, scaled) or len(scaled.inputs) != 2:
        return None
    centered, rstd = (graph[name] for name in scaled.inputs)
    if centered.base != "sub" or rstd.base != "rsqrt" or not all(is_private(graph, n) for n in (centered, rstd)):
        return None
    shifted = graph[rstd.inputs[0]]
    grouped, mean = (graph[name] for name in centered.inputs) if len(centered.inputs) == 2 else (shifted, shifted)
    if shifted.base != "add" or len(shifted.inputs) != 1 or grouped.base not in ("view", "reshape"):
        return None
    var = graph[shifted.inputs[0]]
    nodes = (shifted, mean, var, scaled, centered, rstd, back, grouped)
    x = graph[grouped.inputs[0]]
    fits = x.shapes == back.shapes and grouped.rank == 3 and x.rank > 2 and x.dtype == "float32"
    statistics = (mean.base, var.base) == ("mean", "var") and mean.inputs == var.inputs == (grouped.name,)
    along = statistics and all(n.args[1] in ([2], [-1]) for n in (mean, var)) and var.kwargs.get("correction") == 0
    several = fits and all(c % g == 0 and c > g for c, g in zip(x.size(1), grouped.size(1), strict=True))
    alone = {*graph.users[grouped.name], *graph.returned & {grouped.name}} == {mean.name, var.name, centered.name}
    if not (along and several and alone and all(is_private(graph, n) for n in (shifted, mean, var))):
        return None
    return Norm(x, grouped, shifted, frozenset(n.name for n in nodes))


def _folded(norm: Norm, steps: list[Node], end: Node) -> list[Node]:
    """Write the moments by channel, the statistics of the groups, the norm of the means, and what follows it."""
    x, made = norm.x, []
    pixels: JsonValue = list(range(2, x.rank))
    samples, channels, groups = x.size(0), x.size(1), norm.grouped.size(1)
    lines: Shapes = tuple(zip(samples, channels, strict=True))
    parts = tuple(c // g for c, g in zip(channels, groups, strict=True))
    apart: Shapes = tuple(zip(samples, groups, parts, strict=True))
    one: Shapes = tuple((b, g, 1) for b, g in zip(samples, groups, strict=True))
    ends: Shapes = tuple((b, c, *(1 for _ in range(2, x.rank))) for b, c in lines)

    def add(part: str, op: str, args: tuple[JsonValue, ...], shapes: Shapes, **kwargs: JsonValue) -> Node:
        node = new_node(f"{end.name}_{part}" if part else end.name, op, args, shapes)
        made.append(node.model_copy(update={"kwargs": kwargs}))
        return made[-1]

    def seen(part: str, node: Node, shapes: Shapes) -> Node:
        sizes: list[JsonValue] = [number(tuple(shape[d] for shape in shapes)) for d in range(len(shapes[0]))]
        return add(part, "view.default", (refer(node), sizes), shapes)

    means = seen("means", add("channel_mean", "mean.dim", (refer(x), pixels), lines), apart)
    spread = add("channel_var", "var.correction", (refer(x), pixels), lines, correction=0)
    within = add("within", "mean.dim", (refer(seen("vars", spread, apart)), [2], True), one)
    between = add("between", "var.correction", (refer(means), [2]), one, correction=0, keepdim=True)
    var = add("var", "add.Tensor", (refer(within), refer(between)), one)
    shifted = add("shifted", norm.shifted.op, (refer(var), *norm.shifted.args[1:]), one)
    rstd = add("rstd", "rsqrt.default", (refer(shifted),), one)
    middle = add("middle", "mean.dim", (refer(means), [2], True), one)
    centered = add("centered", "sub.Tensor", (refer(means), refer(middle)), apart)
    last = seen("normed", add("scaled", "mul.Tensor", (refer(centered), refer(rstd)), apart), ends)
    for step in steps:
        last = add(f"{step.name}_mean", step.op, (refer(last), *step.args[1:]), ends)
    if end.shapes in (lines, ends):  # the channels stay
        seen("", last, end.shapes)
    else:
        add("", end.op, (refer(last), *end.args[1:]), end.shapes)
    return made


def _proof(norm: Norm) -> str:
    """Write why the fold computes the same."""
    groups, channels = norm.grouped.shape[1], norm.x.shape[1]
    return (
        f"a mean over all pixels behind a group norm ({groups} groups of {channels} channels): the norm is linear by "
        "channel once its statistics are known, and these follow from the channels' means m and variances v: "
        "mean(m), mean(v) + var(m)"
    )
