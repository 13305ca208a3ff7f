"""Which activations have their channels innermost: those that a convolution reads so, behind elementwise work.

The move is an operator of its own in the graph, so that what makes the activation can store it in that order.
"""

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.capture.process import capture_graph
from egg_graph.expert.codegen.expressions import is_pointwise
from egg_graph.expert.playbooks.channels.layout import CHANNELS_LAST
from egg_graph.expert.playbooks.channels.planes import is_by_channel
from egg_graph.expert.playbooks.convolution.match import Convolution, convolution_at
from egg_graph.expert.playbooks.convolution.norms import take_parts
from egg_graph.expert.playbooks.convolution.playbook import structure_of
from egg_graph.schema import KernelTask

MOST_KEPT = 64
_laid_out: dict[int, tuple[CapturedGraph, CapturedGraph]] = {}
"""By identity of a captured graph: that graph, and the one to plan from."""


def graph_of(task: KernelTask) -> CapturedGraph:
    """Return the graph that kernels for a task are planned from. Raises what `capture_graph` raises."""
    graph = capture_graph(task)
    if id(graph) not in _laid_out:
        if len(_laid_out) >= MOST_KEPT:
            _laid_out.clear()
        _laid_out[id(graph)] = graph, prepare(graph)
    return _laid_out[id(graph)][1]


def prepare(graph: CapturedGraph) -> CapturedGraph:
    """Return the graph with operators of our own where groups share work: moments of parts, and moved channels."""
    return lay_out_channels(take_parts(graph))


def lay_out_channels(graph: CapturedGraph) -> CapturedGraph:
    """Return the graph with a move of the channels between elementwise work and each convolution that wants it."""
    moves: dict[str, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        convolution = convolution_at(graph, node.name)
        if convolution is None or not _wants_move(graph, convolution):
            nodes.append(node)
            continue
        if convolution.x not in moves:
            moves[convolution.x] = _move(graph, graph[convolution.x])
            nodes.append(moves[convolution.x])
        nodes.append(node.model_copy(update={"args": ({"node": moves[convolution.x].name}, *node.args[1:])}))
    if not moves:
        return graph
    fields = {name: getattr(graph, name) for name in CapturedGraph.model_fields}
    return CapturedGraph(**{**fields, "nodes": tuple(nodes)})


def _wants_move(graph: CapturedGraph, convolution: Convolution) -> bool:
    x = graph[convolution.x]
    alone = convolution.x != convolution.weight and "x" not in convolution.node.kwargs
    made = not graph.is_placeholder(x.name) and is_pointwise(x) and x.rank == 4
    return (
        made
        and alone
        and _is_elementwise(graph, x)
        and not convolution.node.of_sums
        and structure_of(graph, convolution, "") == "channels_last"
    )


def _is_elementwise(graph: CapturedGraph, x: Node) -> bool:
    """Return whether all that the elementwise chain of a tensor reads varies by channel, or has its shape.

    What reads a reduction of itself, as a softmax does, belongs into the kernel that reduces.
    """
    pending, seen = [x.name], {x.name}
    while pending:
        for name in graph.inputs[pending.pop()]:
            operand = graph[name]
            if operand.shapes == x.shapes and is_pointwise(operand) and name not in seen:
                seen.add(name)
                pending.append(name)
            elif operand.shapes != x.shapes and set(operand.numel) != {1} and not is_by_channel(operand, x):
                return False
    return True


def _move(graph: CapturedGraph, x: Node) -> Node:
    name = f"{x.name}_last"
    while name in graph.by_name:
        name += "_"
    channels, height, width = x.shape[1:]
    stride = (channels * height * width, 1, width * channels, channels)
    return Node(name=name, op=CHANNELS_LAST, args=({"node": x.name},), shapes=x.shapes, dtype=x.dtype, stride=stride)
