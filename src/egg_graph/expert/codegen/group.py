"""A group of operators, the kernel source written for it, and the knobs of that source."""

from collections.abc import Collection
from dataclasses import dataclass, field

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.schema import ConfigSpace, Knob


@dataclass(frozen=True)
class Group:
    """Nodes that one playbook turns into one wrapper call. Always convex (`CapturedGraph.is_convex`)."""

    playbook: str
    """Name of the playbook."""
    nodes: tuple[str, ...]
    """In execution order."""
    inputs: tuple[str, ...]
    """Nodes and placeholders read from outside, in execution order."""
    outputs: tuple[str, ...]
    """Nodes of the group that are needed outside, in execution order."""
    variant: str = ""
    """Which structure to write (one of `Playbook.variants`); empty lets the playbook choose."""

    @classmethod
    def of(cls, graph: CapturedGraph, playbook: str, nodes: "tuple[str, ...] | set[str]", variant: str = "") -> "Group":
        """Make the group of these nodes; its inputs and outputs follow from the graph."""
        return cls(playbook, graph.ordered(nodes), graph.reads(nodes), graph.writes(nodes), variant)


@dataclass(frozen=True)
class KernelCode:
    """The source that a playbook wrote for one group."""

    function: str
    """Name of the wrapper that `forward` calls."""
    source: str
    """`@triton.jit` kernels and the wrapper: module-level code that ends in a newline."""
    tensors: tuple[str, ...]
    """Nodes and placeholders handed to the wrapper: its first positional arguments, in order."""
    returns: tuple[str, ...]
    """Nodes that the wrapper returns: a tuple of tensors in this order, or the bare tensor where there is one."""
    sizes: tuple[tuple[int, ...] | tuple[float, ...], ...] = ()
    """Further positional arguments: numbers that the wrapper cannot read off its tensors, one entry per capture."""
    config: dict[str, Knob] = field(default_factory=dict)
    """This group's part of CONFIG; every knob is prefixed with the group's name and an underscore."""
    space: ConfigSpace = field(default_factory=dict)
    """This group's part of SPACE, with the same prefix."""
    helpers: tuple[str, ...] = ()
    """Shared functions that the source calls (keys of `codegen.helpers.HELPERS`)."""
    keeps: bool = False
    """Whether the wrapper keeps a packed weight from call to call. Its last two arguments are then the dictionary that
    a module keeps such copies in, and the group's name."""
    into: bool = False
    """Whether the wrapper takes as its last argument the tensor to write its only result to, a slice of channels. Its
    first tensor has as many samples."""
    in_place: tuple[str, ...] = ()
    """Nodes that the wrapper writes into the buffers that take their values; it does not return them."""
    summary: str = ""
    """One line for the module's docstring: what is fused, and how."""


@dataclass(frozen=True)
class Tuning:
    """The knobs of one kernel, by names without the group's prefix."""

    config: dict[str, Knob]
    """First choice for each knob."""
    space: ConfigSpace
    """What each tuning stage may try instead."""

    def without(self, knobs: Collection[str]) -> "Tuning":
        """Return the same without these knobs."""
        config = {k: v for k, v in self.config.items() if k not in knobs}
        space: ConfigSpace = {s: {k: v for k, v in tried.items() if k not in knobs} for s, tried in self.space.items()}
        return Tuning(config, space)

    def prefixed(self, name: str) -> tuple[dict[str, Knob], ConfigSpace]:
        """Return config and space with the group's name and an underscore before every knob."""
        config = {f"{name}_{k}": v for k, v in self.config.items()}
        space: ConfigSpace = {
            stage: {f"{name}_{k}": v for k, v in knobs.items()} for stage, knobs in self.space.items()
        }
        return config, space
