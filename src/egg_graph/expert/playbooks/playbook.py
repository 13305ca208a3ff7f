"""What a playbook is: all that the expert knows about one kind of operator group, in one class.

A playbook recognises a group of operators, writes one fused piece of Triton for it, and describes itself: its
structures, when each pays, the principles behind it, the knobs to lower when a kernel does not fit, and guidance for
people and prompts. To add one, subclass `Playbook` in a file of its own and name it in `registry.PLAYBOOKS`, or pass
it to `registry.add_playbook`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.group import Group, KernelCode
from egg_graph.schema import Category, Hardware, Knob, Precision

LIBRARY = "library"
"""The alternative that leaves a group's anchor to PyTorch, so that other playbooks can take its tail."""
HOPELESS = 1.15
"""Expected time over the library's that no sweep of a kernel of ours has made good."""
MOST_WARPS = 16

Action = Literal["shrink", "spread", "plain", "drop", "rewrite", "none"]
"""Lower knobs, use more warps, write the plainest structure, go back to PyTorch, write anew, or change nothing."""


@dataclass(frozen=True)
class Alternative:
    """Another structure for a playbook's groups, and when it pays."""

    variant: str
    """One of `Playbook.variants`, or `LIBRARY`."""
    category: Category
    reason: str
    """Why it may be faster: a main clause for the analyst's plan."""
    principles: tuple[str, ...] = ()
    """Ids of the principles that it stands on."""
    saves_registers: bool = False
    """Whether spilled registers alone are reason enough to try it, without a measured time."""


@dataclass(frozen=True)
class Expected:
    """What a group's anchor takes by the library and by our own kernel, from measurements of others like it."""

    library_ms: float
    own_ms: float
    passes_ms: float
    """What the library's anchor costs behind it: the passes that our own kernel's tail spares [ms]."""
    source: str
    """Where that was measured."""

    @property
    def library_wins(self) -> bool:
        return self.library_ms + self.passes_ms < self.own_ms

    @property
    def hopeless(self) -> bool:
        """Whether our kernel is so far behind that no other structure or knob of it is worth an evaluation."""
        return self.own_ms > HOPELESS * (self.library_ms + self.passes_ms)

    def __str__(self) -> str:
        behind = f" and {self.passes_ms:.2g} ms for the tail's own pass" if self.passes_ms else ""
        return f"expected {self.library_ms:.2g} ms{behind} by the library, {self.own_ms:.2g} ms by ours ({self.source})"


@dataclass(frozen=True)
class Remedy:
    """What to change after a failure, and in which group."""

    action: Action
    kind: str
    """The finding's kind."""
    group: str = ""
    knobs: Mapping[str, Knob] | None = None
    """New values of the knobs, for `shrink` and `spread`."""


class Playbook(ABC):
    """One way to turn a group of operators into Triton. It keeps no state."""

    name: str
    """Prefix of group names: a Python identifier."""
    guidance: str
    """A few lines for people and prompts: when it applies, its structure, what paid on which GPU."""
    operators: frozenset[str] = frozenset()
    """ATen operators that the guidance is about, without namespace: `sum` for all overloads, `sum.default` for one."""
    variants: tuple[str, ...] = ("",)
    """Structures that `write` knows, the plainest first; `("",)` where there is only one."""
    alternatives: tuple[Alternative, ...] = ()
    """Structures to try instead of the present one, in this order."""
    complexity: int = 0
    """Where an evaluator names no kernel, the group of the most complex playbook is suspected first."""
    shared_memory_knobs: tuple[str, ...] = ("num_stages", "BLOCK")
    """Parts of knob names to lower, in this order, when a kernel needs more shared memory than there is."""
    register_knobs: tuple[str, ...] = ("ROWS", "BLOCK", "STEPS")
    """Parts of knob names to lower, in this order, when registers spill and more warps do not help."""

    @abstractmethod
    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Find the largest group of free nodes with `start` as its anchor (its first node, if it has no anchor).

        The planner calls this for each free node in execution order. None where this playbook does not apply.
        """

    @abstractmethod
    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write kernels and wrapper for a group.

        The wrapper works at any shape: it reads sizes from its tensors, and makes operands contiguous or reads
        their strides. CONFIG is a global of the module; the wrapper passes `CONFIG["<name>_<KNOB>"]` to the launch.

        Args:
            graph: The captured reference.
            group: A group that `match` made, with one of `variants`.
            name: Prefix of functions and knobs, unique in the module.
            precision: The task's precision policy.
            target: The GPU that the first choice of the knobs is for; None for an H200.
        """

    def is_about(self, operators: frozenset[str]) -> bool:
        """Return whether the guidance fits a reference.

        Args:
            operators: Names of its ATen operators without namespace, each with and without its overload.
        """
        return bool(self.operators & operators)

    def structures(self, graph: CapturedGraph, group: Group, target: Hardware | None = None) -> tuple[str, ...]:
        """Return those of `variants` that can be written for a group and run: the others are never proposed.

        Args:
            graph: The captured reference.
            group: A group that `match` made.
            target: The GPU; None for an H200.
        """
        return self.variants

    def preferred_variant(self, graph: CapturedGraph, group: Group, precision: Precision, target: Hardware) -> str:
        """Choose the structure of a seed: what paid on hardware like the target, else what `match` chose."""
        return group.variant

    def measured(self, graph: CapturedGraph, group: Group, precision: Precision, target: Hardware) -> str:
        """Return where the preferred structure was measured against the others, for groups like this one on the target.

        The analyst then proposes no other structure of ours. In words; empty where it was not, and one may pay.
        """
        return ""

    def expected(self, graph: CapturedGraph, group: Group, precision: Precision, target: Hardware) -> Expected | None:
        """Return what the library and our preferred structure take for a group; None where nothing was measured.

        Where the library wins, a first kernel leaves the anchor to it, if that leaves anything to write.
        """
        return None

    def remedy(self, kind: str, group: str, variant: str, knobs: Mapping[str, Knob]) -> Remedy:
        """Choose what to change after a failure.

        A kernel that does not fit is made smaller. A structure that fails gives way to the plainest one. What still
        fails goes back to PyTorch.

        Args:
            kind: The finding's kind.
            group: Name of the failing group.
            variant: Its present structure.
            knobs: Its knobs with their present values, by full name.
        """
        if kind == "shared_memory_exceeded" and (smaller := _lowered(knobs, self.shared_memory_knobs)):
            return Remedy("shrink", kind, group, smaller)
        if kind == "register_spill":
            if more := _more_warps(knobs):
                return Remedy("spread", kind, group, more)
            if smaller := _lowered(knobs, self.register_knobs):
                return Remedy("shrink", kind, group, smaller)
        resources = ("register_spill", "shared_memory_exceeded", "library_call")
        if kind not in resources and variant not in ("", self.variants[0]):
            return Remedy("plain", kind, group)
        return Remedy("drop", kind, group)


def _lowered(knobs: Mapping[str, Knob], parts: tuple[str, ...]) -> dict[str, Knob]:
    """Take one pipeline stage off, or halve the largest block; empty where every knob is at its least."""
    for part in parts:
        found = {k: v for k, v in knobs.items() if part in k and isinstance(v, int) and not isinstance(v, bool)}
        if part == "num_stages":
            found = {k: v for k, v in found.items() if v > 1}
            if found:
                return {k: v - 1 for k, v in found.items()}
            continue
        found = {k: v for k, v in found.items() if v > (1 if part == "ROWS" else 16)}
        if found:
            largest = max(found, key=lambda k: found[k])
            return {largest: found[largest] // 2}
    return {}


def _more_warps(knobs: Mapping[str, Knob]) -> dict[str, Knob]:
    """Double the warps, up to 16: each thread then needs half the registers."""
    return {k: v * 2 for k, v in knobs.items() if k.endswith("num_warps") and isinstance(v, int) and v < MOST_WARPS}
