"""Structural alternatives to a kernel, and the principles each one stands on. The analyst's knowledge of structure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from egg_graph.expert.playbooks.registry import BY_NAME
from egg_graph.schema import Brief, Category

LIBRARY = "library"
"""Not a variant of a playbook: leave the anchor to PyTorch, and let other playbooks take its tail."""


@dataclass(frozen=True)
class Alternative:
    """Another structure for the groups of one playbook that have the same one now: they win or lose together."""

    groups: tuple[str, ...]
    variant: str
    category: Category
    reason: str
    principles: tuple[str, ...]

    def plan(self, now: str) -> str:
        """The sentence that `chosen_in` reads back."""
        return f"Switch {', '.join(self.groups)} from {now or 'the first structure'} to {self.variant}: {self.reason}."


# In the order in which they are tried.
_REASONS: dict[tuple[str, str], tuple[Category, str, tuple[str, ...]]] = {
    ("gemm", "tma"): (
        "parallel_mapping", "persistent programs fed by TMA keep the tensor cores busy across tiles",
        ("persistent_gemm", "tma_descriptors", "round_operands_rna"),
    ),
    ("gemm", LIBRARY): (
        "operator_fusion", "the library's product with one Triton tail wins where the product itself dominates",
        ("leave_plain_gemm_to_library", "one_read_per_row"),
    ),
    ("gemm", "tma_registers"): (
        "memory_access", "operands rounded in registers spare the pass that rounds them in memory",
        ("k_major_b", "round_operands_rna"),
    ),
    ("gemm", "split_k"): (
        "parallel_mapping", "few output tiles and a long K leave multiprocessors idle", ("split_k", "fill_the_machine"),
    ),
    ("gemm", "pointer"): ("memory_access", "plain pointers spare descriptors and packing where tiles are few", ()),
    ("attention", "tma"): (
        "memory_access", "TMA feeds keys and values without address arithmetic", ("tma_descriptors",)
    ),
    ("scan", "rows"): ("algorithm_replacement", "blocks with a carry need fewer registers", ("scan_whole_row",)),
    ("row", "looped"): (
        "algorithm_replacement", "walking the row in blocks with running statistics needs fewer registers",
        ("online_softmax", "no_spills"),
    ),
    ("row", "whole"): ("algorithm_replacement", "a row held in registers is read once", ("one_read_per_row",)),
    ("column", "looped"): ("algorithm_replacement", "walking the axis needs fewer registers", ("no_spills",)),
    ("column", "whole"): ("algorithm_replacement", "an axis held in registers is read once", ("one_read_per_row",)),
}  # fmt: skip


def alternatives(groups: Mapping[str, str], playbook_of: Mapping[str, str]) -> Iterator[Alternative]:
    """Structures a module has not; heaviest playbook first, and first those that more often paid."""
    alike: dict[tuple[str, str], list[str]] = {}
    for group, variant in groups.items():
        alike.setdefault((playbook_of[group], variant), []).append(group)
    weight = list(BY_NAME)
    for (playbook, now), names in sorted(
        alike.items(), key=lambda kv: weight.index(kv[0][0]) if kv[0][0] in weight else 99
    ):
        for (owner, variant), (category, reason, principles) in _REASONS.items():
            known = owner == playbook and playbook in BY_NAME
            if known and variant != now and (variant == LIBRARY or variant in BY_NAME[playbook].variants):
                yield Alternative(tuple(names), variant, category, reason, principles)


def chosen_in(plan: str) -> tuple[tuple[str, ...], str] | None:
    """Groups and variant that a plan names, None where the plan is somebody else's."""
    found = re.search(r"Switch ([\w, ]+) from .*? to (\w+):", plan)
    return (tuple(found[1].split(", ")), found[2]) if found else None


def cited(brief: Brief, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Of the principles in the brief, those that lead here: by id, else by the operators they are about."""
    ids = tuple(p.id for p in brief.principles if p.id in wanted)
    if ids:
        return ids
    operators = brief.baseline.operators
    about = (p.id for p in brief.principles if any(o in op for o in p.operators for op in operators))
    return tuple(about)[:2]
