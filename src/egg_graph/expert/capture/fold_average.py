"""Fold an average over neighbouring output features of a linear layer into its weight: a product of fewer features.

    mean_i (x W^T + b)_(jk + i)  =  x . mean_i(W_(jk + i)) + mean_i(b_(jk + i)),   i = 0 … k - 1

The weight is averaged in every call, because it may change in place: one read of it, and a product k times smaller.
"""

from pydantic import JsonValue

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.capture.rewrite import are_new, is_private, new_node, refer, replace

SMALLEST = 64
"""Rows at full shape below which the product is little more than one read of the weight."""


def fold_feature_averages(graph: CapturedGraph) -> CapturedGraph:
    """Return the graph with every average pooling of a linear layer's features folded, and each fold's proof."""
    for pool in graph.nodes:
        linear = _pooled_linear(graph, pool)
        if linear is None:
            continue
        folded = _folded(graph, linear, pool)
        if are_new(graph, folded):
            gone = {linear.name, pool.inputs[0]}
            return fold_feature_averages(replace(graph, gone, pool.name, folded, _proof(linear, pool)))
    return graph


def _pooled_linear(graph: CapturedGraph, pool: Node) -> Node | None:
    """Return the layer whose features alone the pooling averages, window by window; None where there is none."""
    if pool.op != "aten.avg_pool1d.default" or pool.kwargs or len(pool.args) not in (2, 3):
        return None
    if len(pool.args) == 3 and pool.args[2] not in (pool.args[1], []):
        return None
    view = graph[pool.inputs[0]]
    if view.base != "unsqueeze" or view.rank != 3 or set(view.size(1)) != {1}:
        return None
    linear = graph[view.inputs[0]]
    alone = is_private(graph, view) and is_private(graph, linear)
    tensors = [graph[name] for name in linear.inputs]
    plain = linear.base == "linear" and linear.rank == 2 and all(t.dtype == "float32" for t in (linear, *tensors))
    if not (alone and plain) or len(tensors) != len(linear.args) or linear.shape[0] < SMALLEST:
        return None
    return linear if _window(pool) is not None else None


def _window(pool: Node) -> tuple[int, ...] | None:
    """Return the number of neighbours averaged in each capture."""
    raw = pool.args[1]
    window = raw[0] if isinstance(raw, list) and len(raw) == 1 else None
    if isinstance(window, dict):
        sizes = window.get("sizes")
        return tuple(int(str(n)) for n in sizes) if isinstance(sizes, list) else None
    return (window,) * len(pool.shapes) if isinstance(window, int) else None


def _folded(graph: CapturedGraph, linear: Node, pool: Node) -> list[Node]:
    """Write the averaged weight and bias, the smaller layer, and the pooling's result as a view of it."""
    window = _window(pool)
    assert window is not None
    counts, size = pool.size(-1), pool.args[1][0]  # type: ignore[index]
    made: list[Node] = []

    def add(part: str, op: str, args: tuple[JsonValue, ...], shapes: tuple[tuple[int, ...], ...]) -> Node:
        made.append(new_node(f"{pool.name}_{part}" if part else pool.name, op, args, shapes))
        return made[-1]

    def average(part: str, tensor: Node) -> Node:
        rest = [shape[1:] for shape in tensor.shapes]
        cut = [(*dims, k) for k, dims in zip(window, rest, strict=True)]
        windows = add(
            f"{part}_windows", "unfold.default", (refer(tensor), 0, size, size), _join(counts, cut)
        )  # a view, without the features that fill no window
        if rest[0]:
            turned = [(k, *dims) for k, dims in zip(window, rest, strict=True)]
            windows = add(f"{part}_turned", "transpose.int", (refer(windows), 1, 2), _join(counts, turned))
        return add(part, "mean.dim", (refer(windows), [1]), _join(counts, rest))

    operands = [average(part, graph[name]) for part, name in zip(("weight", "bias"), linear.inputs[1:], strict=False)]
    averaged: list[JsonValue] = [refer(node) for node in operands]
    args = (linear.args[0], *averaged)
    rows = tuple((m, n) for m, n in zip(linear.size(0), counts, strict=True))
    small = add("linear", "linear.default", args, rows)
    made[-1] = small.model_copy(update={"of_sums": True})
    add("", "unsqueeze.default", (refer(small), 1), pool.shapes)
    return made


def _join(first: tuple[int, ...], rest: list[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    return tuple((n, *dims) for n, dims in zip(first, rest, strict=True))


def _proof(linear: Node, pool: Node) -> str:
    """Write why the fold computes the same."""
    window = _window(pool)
    assert window is not None
    return (
        f"averages of {window[0]} neighbours among {linear.shape[1]} features of linear: averaging is linear, so it "
        "averages the weight's rows and the bias before a product of so many times fewer features"
    )
