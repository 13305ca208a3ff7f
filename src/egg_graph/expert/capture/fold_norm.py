"""Fold an average over all pixels into the group norm before it: only each channel's mean and variance are left.

A group norm and what follows it by channel are linear, once the statistics are known, so the average passes through
them. The statistics of a group follow from its channels' means m_c and variances v_c over equally many pixels:

    mean = mean_c(m_c),   variance = mean_c(v_c) + variance_c(m_c)

So the normalized tensor is never written, and what makes x need not write x: it can leave the two moments.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import JsonValue

from egg_graph.expert.capture.channel_steps import source_of_step
from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.capture.rewrite import Shapes, are_new, is_private, new_node, number, refer, renamed, replace

VIEWS = ("view", "reshape")


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
        normed, steps = _steps_before(graph, end)
        norm = _norm_at(graph, normed)
        if norm is None:
            continue
        made = _folded(norm, normed, steps, end)
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


def _steps_before(graph: CapturedGraph, end: Node) -> tuple[Node, list[Node]]:
    """Return what the steps by channel before the average are applied to, and the steps in order."""
    source, steps = graph[end.inputs[0]], list[Node]()
    while is_private(graph, source) and (before := source_of_step(graph, source)) is not None:
        steps.insert(0, source)
        source = before
    return source, steps


def _norm_at(graph: CapturedGraph, normed: Node) -> Norm | None:
    """Recognise the group norm whose result, in the shape of x, is `normed`."""
    if normed.base not in VIEWS or not is_private(graph, normed):
        return None
    scaled = graph[normed.inputs[0]]
    if scaled.base != "mul" or not is_private(graph, scaled) or len(scaled.inputs) != 2:
        return None
    centered, rstd = (graph[name] for name in scaled.inputs)
    if centered.base != "sub" or len(centered.inputs) != 2 or rstd.base != "rsqrt":
        return None
    grouped, mean = (graph[name] for name in centered.inputs)
    shifted = graph[rstd.inputs[0]]
    if shifted.base != "add" or len(shifted.inputs) != 1 or grouped.base not in VIEWS:
        return None
    x, var = graph[grouped.inputs[0]], graph[shifted.inputs[0]]
    inner = (centered, rstd, shifted, mean, var)
    used = {*graph.users[grouped.name], *graph.returned & {grouped.name}} == {mean.name, var.name, centered.name}
    if not used or not _are_statistics(mean, var, grouped) or not _is_grouped(x, grouped, normed):
        return None
    nodes = (*inner, scaled, normed, grouped)
    return Norm(x, grouped, shifted, frozenset(n.name for n in nodes)) if _all_private(graph, inner) else None


def _are_statistics(mean: Node, var: Node, of: Node) -> bool:
    """Return whether two nodes are mean and variance of each group, without Bessel's correction."""
    right = (mean.base, var.base) == ("mean", "var") and mean.inputs == var.inputs == (of.name,)
    return right and all(n.args[1] in ([2], [-1]) for n in (mean, var)) and var.kwargs.get("correction") == 0


def _is_grouped(x: Node, grouped: Node, normed: Node) -> bool:
    """Return whether `grouped` is x as [samples, groups, elements], with several channels a group in every capture."""
    if x.shapes != normed.shapes or grouped.rank != 3 or x.rank < 3 or x.dtype != "float32":
        return False
    return all(c % g == 0 and c > g for c, g in zip(x.size(1), grouped.size(1), strict=True))


def _all_private(graph: CapturedGraph, nodes: Iterable[Node]) -> bool:
    return all(is_private(graph, node) for node in nodes)


def _folded(norm: Norm, normed: Node, steps: list[Node], end: Node) -> list[Node]:
    """Write the moments by channel, the statistics of the groups, the norm of the means, and what follows it."""
    x, made = norm.x, []
    pixels: JsonValue = list(range(2, x.rank))
    samples, channels, groups = x.size(0), x.size(1), norm.grouped.size(1)
    flat: Shapes = tuple(zip(samples, channels, strict=True))
    in_groups: Shapes = tuple((b, g, c // g) for b, c, g in zip(samples, channels, groups, strict=True))
    by_group: Shapes = tuple((b, g, 1) for b, g in zip(samples, groups, strict=True))
    one_pixel: Shapes = tuple((b, c, *(1 for _ in range(2, x.rank))) for b, c in flat)

    def add(part: str, op: str, args: tuple[JsonValue, ...], shapes: Shapes, **kwargs: JsonValue) -> Node:
        node = new_node(f"{end.name}_{part}" if part else end.name, op, args, shapes)
        made.append(node.model_copy(update={"kwargs": kwargs}))
        return made[-1]

    def view(part: str, node: Node, shapes: Shapes) -> Node:
        sizes: list[JsonValue] = [number(tuple(shape[d] for shape in shapes)) for d in range(len(shapes[0]))]
        return add(part, "view.default", (refer(node), sizes), shapes)

    means = view("means", add("channel_mean", "mean.dim", (refer(x), pixels), flat), in_groups)
    spread = add("channel_var", "var.correction", (refer(x), pixels), flat, correction=0)
    within = add("within", "mean.dim", (refer(view("vars", spread, in_groups)), [2], True), by_group)
    between = add("between", "var.correction", (refer(means), [2]), by_group, correction=0, keepdim=True)
    var = add("var", "add.Tensor", (refer(within), refer(between)), by_group)
    shifted = add("shifted", norm.shifted.op, (refer(var), *norm.shifted.args[1:]), by_group)
    rstd = add("rstd", "rsqrt.default", (refer(shifted),), by_group)
    middle = add("middle", "mean.dim", (refer(means), [2], True), by_group)
    centered = add("centered", "sub.Tensor", (refer(means), refer(middle)), in_groups)
    last = view("normed", add("scaled", "mul.Tensor", (refer(centered), refer(rstd)), in_groups), one_pixel)
    names = {normed.name: last.name}
    for step in steps:
        last = add(f"{step.name}_mean", step.op, tuple(renamed(arg, names) for arg in step.args), one_pixel)
        names[step.name] = last.name
    if end.shapes in (flat, one_pixel):  # the channels stay
        view("", last, end.shapes)
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
