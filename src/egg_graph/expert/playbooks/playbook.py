"""What a playbook is: it recognises a group of operators and writes one fused piece of Triton for it."""

from dataclasses import dataclass, field
from typing import Protocol

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.schema import ConfigSpace, Hardware, Knob, Precision


@dataclass(frozen=True)
class Group:
    """Nodes that one playbook turns into one wrapper call. Always convex (`CapturedGraph.is_convex`)."""

    playbook: str
    nodes: tuple[str, ...]
    """In execution order."""
    inputs: tuple[str, ...]
    """Nodes and placeholders read from outside, in execution order."""
    outputs: tuple[str, ...]
    """Nodes of the group that are needed outside, in execution order."""
    variant: str = ""
    """Which structural alternative of the playbook (`Playbook.variants`) to write."""

    @classmethod
    def of(cls, graph: CapturedGraph, playbook: str, nodes: "tuple[str, ...] | set[str]", variant: str = "") -> "Group":
        """The group of these nodes, its inputs and outputs read off the graph."""
        return cls(playbook, graph.ordered(nodes), graph.reads(nodes), graph.writes(nodes), variant)


@dataclass(frozen=True)
class KernelCode:
    """The source that a playbook wrote for one group."""

    function: str
    """Name of the wrapper that `forward` calls."""
    source: str
    """`@triton.jit` kernels and the wrapper, module-level code that ends in a newline."""
    tensors: tuple[str, ...]
    """Nodes and placeholders handed to the wrapper, its first positional arguments, in order."""
    returns: tuple[str, ...]
    """Nodes the wrapper returns: a tuple of tensors in this order, or the bare tensor where there is one."""
    sizes: tuple[tuple[int, ...] | tuple[float, ...], ...] = ()
    """Further positional arguments (numbers, one entry per capture) that the wrapper cannot read off its tensors."""
    config: dict[str, Knob] = field(default_factory=dict)
    """This group's part of CONFIG; every knob is prefixed with the group's name and an underscore."""
    space: ConfigSpace = field(default_factory=dict)
    """This group's part of SPACE."""
    helpers: tuple[str, ...] = ()
    """Shared device functions it calls (keys of `egg_graph.expert.helpers.HELPERS`)."""
    summary: str = ""
    """One line for the plan: what is fused, and how."""


class Playbook(Protocol):
    """One way to turn a group of operators into Triton."""

    @property
    def name(self) -> str: ...

    @property
    def guidance(self) -> str:
        """A few lines for people and prompts: when it applies, its structure, what paid on which GPU."""
        ...

    @property
    def variants(self) -> tuple[str, ...]:
        """Structural alternatives, in the order to try them; `("",)` where there is one structure only."""
        ...

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """The largest group with `start` as its anchor (for the anchorless, its first node), of free nodes only.

        None where this playbook does not apply. The planner calls it for each free node in execution order.
        """
        ...

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Kernels and wrapper for a group. `name` prefixes functions and knobs and is unique in the module.

        `target` decides the first choice of the knobs (an H200's where it is None).

        The wrapper works at any shape: it reads sizes from its tensors, and makes operands contiguous or reads
        their strides. CONFIG is a global of the module; the wrapper passes `CONFIG["<name>_<KNOB>"]` to the launch.
        """
        ...
