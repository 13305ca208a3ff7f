"""Steps that do the same at all places of a channel: an average over places passes through each of them."""

from egg_graph.expert.capture.graph import CapturedGraph, Node, node_name

STEPS = ("mul.Tensor", "div.Tensor", "add.Tensor", "sub.Tensor")


def source_of_step(graph: CapturedGraph, step: Node) -> Node | None:
    """Return what a step is applied to; None where it does not do the same at all places of a channel."""
    op = step.op.removeprefix("aten.")
    if op not in STEPS or step.kwargs or len(step.args) != 2:
        return None
    named = [isinstance(arg, dict) and "node" in arg for arg in step.args]
    if not all(named):
        return graph[step.inputs[0]] if named[0] and graph[step.inputs[0]].shapes == step.shapes else None
    first, second = (graph[node_name(arg)] for arg in step.args)
    if op != "div.Tensor" and first.shapes != step.shapes:
        first, second = second, first
    constant = all(set(shape[-(step.rank - 2) :]) <= {1} for shape in second.shapes)
    return first if first.shapes == step.shapes and constant and second.dtype == "float32" else None
