"""From a failed evaluation to what to change: the one mapping that debugger and coder share.

A kernel that does not fit is made smaller; a structure that fails gives way to the playbook's plainest; what still
fails is taken back to PyTorch. Each remedy is applied to a plan, so that repairing needs no memory: the plan is read
from the broken module itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from egg_graph.expert.playbooks.registry import BY_NAME
from egg_graph.schema import Candidate, Evaluation, Finding, Knob

Action = Literal["shrink", "spread", "plain", "drop", "rewrite", "none"]
COMPLEXITY = ("attention", "gemm", "scan", "column", "row", "full_reduction", "pointwise")
"""Which playbook is suspected first where the evaluator names no kernel."""
STATUS_KIND = {
    "compile_error": "kernel_compile_error", "runtime_error": "exception", "timeout": "timeout",
    "out_of_memory": "memory_exceeded", "incorrect": "wrong_values", "invalid": "forbidden_construct",
}  # fmt: skip
"""The kind of a failure without findings."""


@dataclass(frozen=True)
class Remedy:
    """What to change, and in which group."""

    action: Action
    kind: str
    """The finding's kind."""
    group: str = ""
    knobs: Mapping[str, Knob] | None = None
    """For shrink and spread: the knobs' new values."""


def remedy_for(
    evaluation: Evaluation, kernel: Candidate, groups: Mapping[str, str], playbook_of: Mapping[str, str]
) -> Remedy:
    """The remedy for a failure.

    Args:
        evaluation: Of the broken kernel.
        kernel: The broken kernel.
        groups: Its groups with their variants, as its docstring tells.
        playbook_of: The playbook of each group.
    """
    finding = worst(evaluation)
    kind = finding.kind if finding is not None else STATUS_KIND.get(evaluation.status, "exception")
    if not groups:
        return Remedy("rewrite", kind)
    if kind in ("infrastructure", "degenerate_problem", "reference_failed"):
        return Remedy("none", kind)
    group = blamed(finding, evaluation.log, groups, playbook_of)
    own = {k: v for k, v in kernel.config.items() if k.startswith(f"{group}_")}
    if kind == "shared_memory_exceeded" and (smaller := _smaller(own, ("num_stages", "BLOCK"))):
        return Remedy("shrink", kind, group, smaller)
    if kind == "register_spill":
        if more := _more_warps(own):
            return Remedy("spread", kind, group, more)
        if smaller := _smaller(own, ("ROWS", "BLOCK", "STEPS")):
            return Remedy("shrink", kind, group, smaller)
    plainest = ("", BY_NAME[playbook_of[group]].variants[0]) if playbook_of.get(group) in BY_NAME else ("",)
    if kind not in ("register_spill", "shared_memory_exceeded", "library_call") and groups[group] not in plainest:
        return Remedy("plain", kind, group)
    return Remedy("drop", kind, group)


def worst(evaluation: Evaluation) -> Finding | None:
    """The finding to act on: the first, which the evaluator puts nearest to the cause."""
    return evaluation.findings[0] if evaluation.findings else None


def blamed(finding: Finding | None, log: str, groups: Mapping[str, str], playbook_of: Mapping[str, str]) -> str:
    """The group whose kernel a finding names; else the one most likely to be wrong."""
    for text in (finding.where, finding.message, log[-2000:]) if finding else (log[-2000:],):
        named = [g for g in groups if re.search(rf"\b{re.escape(g)}(_\w*kernel\b|\b)", text)]
        if named:
            return max(named, key=len)
    order = {name: place for place, name in enumerate(COMPLEXITY)}
    return min(groups, key=lambda g: order.get(playbook_of.get(g, ""), len(order)))


def _smaller(own: Mapping[str, Knob], wanted: tuple[str, ...]) -> dict[str, Knob]:
    """Take one stage off, or halve the largest block; empty where everything is at its least."""
    for word in wanted:
        found = {k: v for k, v in own.items() if word in k and isinstance(v, int) and not isinstance(v, bool)}
        if word == "num_stages":
            found = {k: v for k, v in found.items() if v > 1}
            if found:
                return {k: v - 1 for k, v in found.items()}
            continue
        found = {k: v for k, v in found.items() if v > (1 if word == "ROWS" else 16)}
        if found:
            largest = max(found, key=lambda k: found[k])
            return {largest: found[largest] // 2}
    return {}


def _more_warps(own: Mapping[str, Knob]) -> dict[str, Knob]:
    """Twice the warps halve the registers a thread needs; 16 at most."""
    return {k: v * 2 for k, v in own.items() if k.endswith("num_warps") and isinstance(v, int) and v < 16}
