"""A reference as an ATen graph: plain data, readable without torch.

The graph was captured at several shapes (`shapes[0]` is the full one, then smaller ones, or for a large graph ones
whose sizes are multiplied by primes), so that everything that depends on a size is a vector with one entry per capture:
`{"sizes": [8192, 64, 37]}`.
`egg_graph.expert.codegen.sizes` turns such a vector back into an expression over tensor shapes.

Arguments of a node are JSON: a number, bool, string or None stands for itself, a list for a list, and

    {"node": "mul"}                  another node or placeholder
    {"sizes": [8192, 64, 37]}        an integer that differs between the captures
    {"floats": [0.1, 0.2, 0.3]}      a float that differs between the captures
    {"dtype": "float32"}             a torch dtype
    {"device": "cpu"}                a device (the generated code uses the device of its inputs)
    {"memory_format": "..."}         a memory format
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from math import prod
from typing import Any, Literal

from pydantic import ConfigDict, Field, JsonValue

from egg_graph.schema import Value

VIEWS = frozenset(
    {"view", "_unsafe_view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze", "alias", "detach", "contiguous",
     "clone", "lift_fresh_copy", "dropout_identity"}
)  # fmt: skip
"""Operators (base names) that keep the row-major order of the elements of a contiguous input; `clone` copies it."""
MOST_PARTS = 4
"""Parts of a concatenation that a kernel selects from: every lane goes through the arithmetic of all of them."""


class Node(Value):
    """One operator call."""

    name: str
    op: str
    """`aten.<name>.<overload>`, or `getitem` on the result of an operator with several outputs."""
    args: tuple[JsonValue, ...] = ()
    kwargs: dict[str, JsonValue] = Field(default_factory=dict)
    shapes: tuple[tuple[int, ...], ...] = ()
    """One shape per capture; empty for an operator with several outputs, whose `getitem` nodes have them."""
    dtype: str = ""
    """The dtype's name without `torch.`: `float32`, `int64`, ..."""
    stride: tuple[int, ...] = ()
    """Strides at full shape [elements]."""
    of_sums: bool = False
    """Whether a fold summed its operands before it multiplies them. One rounding of a sum to TF32 then stands where
    the reference has many that average out, so that its products need more digits than TF32 has."""

    @property
    def base(self) -> str:
        """The operator without namespace and overload: `aten.add.Tensor` -> `add`."""
        return self.op.split(".")[1] if "." in self.op else self.op

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the nodes and placeholders that it reads, in order, each once."""
        return tuple(dict.fromkeys(_nodes_in([*self.args, *self.kwargs.values()])))

    @property
    def shape(self) -> tuple[int, ...]:
        """The full shape."""
        return self.shapes[0]

    @property
    def rank(self) -> int:
        return len(self.shapes[0])

    def size(self, dim: int) -> tuple[int, ...]:
        """Return the size of one dimension in each capture."""
        return tuple(shape[dim] for shape in self.shapes)

    @property
    def numel(self) -> tuple[int, ...]:
        """Number of elements, in each capture."""
        return tuple(prod(shape) for shape in self.shapes)

    @property
    def is_float(self) -> bool:
        return self.dtype in ("float64", "float32", "float16", "bfloat16")


class Placeholder(Node):
    """A tensor that the graph starts from."""

    op: str = "placeholder"
    kind: Literal["input", "parameter", "buffer", "constant"]
    target: str
    """The argument's name for an input; the qualified name (`linear.weight`) for the others."""
    value: float | int | bool | None = None
    """The value of a one-element constant that the forward itself creates; it has no qualified name. Otherwise None."""

    @property
    def text(self) -> str:
        """The expression for this tensor inside `forward`."""
        return self.target if self.kind == "input" else member(self.target)


class Derived(Value):
    """An integer that a fold computed from others; the written module computes it in the same way."""

    function: str
    """One of `egg_graph.expert.codegen.helpers`. It returns several integers."""
    arguments: tuple[tuple[int, ...], ...]
    """One entry per capture each, like `values`."""
    part: int
    """Place among what the function returns."""
    values: tuple[int, ...]


class CapturedGraph(Value):
    """The reference's forward in ATen operators."""

    # The cached indexes below live in __dict__, which a frozen model with no extra fields still allows.
    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(cached_property,))

    placeholders: tuple[Placeholder, ...]
    nodes: tuple[Node, ...]
    """The operator calls in execution order."""
    outputs: JsonValue
    """`{"node": ...}`, a constant, or `{"tuple": [...]}`, `{"list": [...]}`, `{"dict": {...}}` of such."""
    mutations: dict[str, str] = Field(default_factory=dict)
    """Qualified name of a buffer -> the node whose value it takes (running statistics)."""
    attributes: dict[str, tuple[int | float, ...]] = Field(default_factory=dict)
    """Numbers that the module holds (`num_heads`, `norm.num_groups`, `scale`), one value per capture."""
    knobs: tuple[dict[str, int], ...] = ({},)
    """Module-level integers that each capture overrides; the first capture, at full shape, overrides none."""
    notes: tuple[str, ...] = ()
    """What could not be captured or generalised, in words."""
    proofs: tuple[str, ...] = ()
    """Why operators that are not as the reference has them compute the same, in words."""
    derived: tuple[Derived, ...] = ()
    """Numbers of such operators that follow from others in no simpler way."""

    @cached_property
    def by_name(self) -> dict[str, Node]:
        return {node.name: node for node in (*self.placeholders, *self.nodes)}

    @cached_property
    def position(self) -> dict[str, int]:
        """Name -> place in execution order; placeholders come before all nodes."""
        return {node.name: i for i, node in enumerate((*self.placeholders, *self.nodes))}

    @cached_property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """Name -> what the node reads, in order, each once."""
        return {name: node.inputs for name, node in self.by_name.items()}

    @cached_property
    def users(self) -> dict[str, tuple[str, ...]]:
        """Name -> the nodes that read it, in execution order."""
        found: dict[str, list[str]] = {name: [] for name in self.by_name}
        for node in self.nodes:
            for name in self.inputs[node.name]:
                found[name].append(node.name)
        return {name: tuple(users) for name, users in found.items()}

    @cached_property
    def answers(self) -> frozenset[str]:
        """Names that the forward returns."""
        return frozenset(_nodes_in([self.outputs]))

    @cached_property
    def returned(self) -> frozenset[str]:
        """Names that the forward returns or writes back to a buffer."""
        return self.answers.union(self.mutations.values())

    def __getitem__(self, name: str) -> Node:
        return self.by_name[name]

    def is_placeholder(self, name: str) -> bool:
        return isinstance(self.by_name[name], Placeholder)

    def is_parameter(self, name: str) -> bool:
        node = self.by_name[name]
        return isinstance(node, Placeholder) and node.kind == "parameter"

    @property
    def operators(self) -> tuple[str, ...]:
        """ATen operators in execution order."""
        return tuple(node.op for node in self.nodes if node.op != "getitem")

    def ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        """Sort names by execution order, each once."""
        return tuple(sorted(set(names), key=self.position.__getitem__))

    def reads(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return what a set of nodes reads from outside itself, in execution order."""
        inside = set(names)
        return self.ordered(i for name in inside for i in self.inputs[name] if i not in inside)

    def writes(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the nodes of a set that are needed outside it, in execution order."""
        inside = set(names)
        needed = (n for n in inside if n in self.returned or any(u not in inside for u in self.users[n]))
        return self.ordered(needed)

    def is_convex(self, names: Iterable[str]) -> bool:
        """Return whether no path leaves the set and comes back. Only such a set can become one kernel."""
        inside = set(names)
        last = max(self.position[n] for n in inside)
        outside = [u for n in inside for u in self.users[n] if u not in inside]
        seen: set[str] = set()
        while outside:
            name = outside.pop()
            if name in inside:
                return False
            if name not in seen and self.position[name] < last:
                seen.add(name)
                outside.extend(self.users[name])
        return True


def member(qualified: str) -> str:
    """Write a qualified name as an expression: `blocks.0.weight` -> `self.blocks[0].weight`."""
    return "self" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in qualified.split("."))


def node_name(arg: JsonValue) -> str:
    """Return the name in `{"node": …}`."""
    assert isinstance(arg, dict)
    return str(arg["node"])


def vector(raw: JsonValue) -> tuple[int, ...] | tuple[float, ...] | None:
    """Return the numbers of `{"sizes": …}` or `{"floats": …}`; None for any other argument."""
    values = (raw.get("sizes") or raw.get("floats")) if isinstance(raw, dict) else None
    if not isinstance(values, list):
        return None
    return tuple(v for v in values if isinstance(v, int | float))


def by_dimension(raw: JsonValue, rank: int, captures: int, default: int) -> tuple[tuple[int, ...], ...] | None:
    """Read one integer for each dimension, each with one entry per capture; None where something else is given."""
    found: list[tuple[int, ...]] = []
    for value in raw if isinstance(raw, list) else [default if raw is None else raw]:
        values = (value,) * captures if isinstance(value, int) else vector(value)
        if values is None or not all(isinstance(v, int) for v in values):
            return None
        found.append(tuple(int(v) for v in values))
    if not found:
        return ((default,) * captures,) * rank
    return tuple(found * rank) if len(found) == 1 else tuple(found)


def _nodes_in(args: Iterable[Any]) -> Iterator[str]:
    for arg in args:
        if isinstance(arg, dict):
            if "node" in arg:
                yield arg["node"]
            else:
                yield from _nodes_in(arg.values())
        elif isinstance(arg, list | tuple):
            yield from _nodes_in(arg)
