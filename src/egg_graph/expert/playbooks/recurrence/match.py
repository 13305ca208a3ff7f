"""Recognise an LSTM, GRU or RNN that stands in the graph as one operator."""

from dataclasses import dataclass

from pydantic import JsonValue

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.group import Group

GATES: dict[str, int] = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""Rows of the weights for each number of the state."""
WIDEST = {"float32": 256, "float16": 512, "bfloat16": 512}
"""Largest state whose weights the multiprocessors hold in their registers, by dtype."""
LARGEST_BATCH = 64
"""Largest batch: a launch takes 16 samples and the next launch waits for it, where the library takes all together."""


@dataclass(frozen=True)
class Recurrence:
    """One call of `aten.lstm.input` or of its kin."""

    node: Node
    x: str
    """[batch, length, features] if `batch_first`, else [length, batch, features]."""
    states: tuple[str, ...]
    """First states, each [layers * directions, batch, width]: hidden, and an LSTM's cells."""
    weights: tuple[str, ...]
    """For each layer and direction: of the input, of the state, and both biases if there are any."""
    has_biases: bool
    layers: int
    bidirectional: bool
    batch_first: bool

    @property
    def cell(self) -> str:
        return self.node.base

    @property
    def gates(self) -> int:
        return GATES[self.cell]


def recurrence_at(graph: CapturedGraph, start: str) -> Recurrence | None:
    """Return the recurrence at `start`, or None: also where it has dropout or a projection, or is too large."""
    node = graph[start]
    if graph.is_placeholder(start) or node.base not in GATES or not node.op.endswith(".input") or len(node.args) != 9:
        return None
    x, states, weights, has_biases, layers, dropout, train, bidirectional, batch_first = node.args
    if (dropout and train) or not isinstance(layers, int) or not isinstance(weights, list):
        return None
    found = Recurrence(
        node, _names([x])[0], _names(states if isinstance(states, list) else [states]), _names(weights),
        bool(has_biases), layers, bool(bidirectional), bool(batch_first),
    )  # fmt: skip
    return found if _is_plain(graph, found) else None


def group_of(graph: CapturedGraph, found: Recurrence, playbook: str, variant: str) -> Group:
    """Make the group of a recurrence and of the nodes that name its results."""
    return Group.of(graph, playbook, {found.node.name, *graph.users[found.node.name]}, variant)


def results_of(graph: CapturedGraph, found: Recurrence) -> dict[str, int]:
    """Return which result each node behind the recurrence names: 0 is the output, 1 the last state, 2 the cells."""
    return {name: int(graph[name].args[1]) for name in graph.users[found.node.name]}  # type: ignore[arg-type]


def _is_plain(graph: CapturedGraph, found: Recurrence) -> bool:
    per_layer = (4 if found.has_biases else 2) * (2 if found.bidirectional else 1)
    tensors = [graph[name] for name in (found.x, *found.states, *found.weights)]
    state = graph[found.states[0]]
    return (
        len(found.weights) == per_layer * found.layers
        and len({tensor.dtype for tensor in tensors}) == 1
        and state.dtype in WIDEST
        and tensors[0].rank == state.rank == 3
        and state.shape[2] <= WIDEST[state.dtype]
        and state.shape[1] <= LARGEST_BATCH
        and all(graph[user].op == "getitem" for user in graph.users[found.node.name])
    )


def _names(arguments: "list[JsonValue]") -> tuple[str, ...]:
    return tuple(str(argument["node"]) for argument in arguments if isinstance(argument, dict) and "node" in argument)
