"""How a forward treats what it is given, and what it hands back: the part of an answer that is not its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from egg_graph.evaluator.gpu.arena import Overrun
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.comparison import input_mutated, judge_strides, same_bytes
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Finding


def input_tensors(case: Case) -> list[torch.Tensor]:
    """The tensors among a case's inputs, in order."""
    return [x for x in torch.utils._pytree.tree_leaves(case.inputs) if isinstance(x, torch.Tensor)]


def input_names(problem: Problem, case: Case) -> list[str]:
    """What the reference's forward calls each of `input_tensors`."""
    names: list[str] = []
    for name, value in zip(problem.reference.forward_names(len(case.inputs)), case.inputs, strict=True):
        inside = [x for x in torch.utils._pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]
        names += [name] if len(inside) == 1 else [f"{name}[{number}]" for number in range(len(inside))]
    return names


# -------------------------------------------------------------------------------------------------- what it hands back


def judge_form(problem: Problem, case: Case, forms: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Device, strides and memory of the leaves, as the worker told them."""
    findings = judge_strides(case, forms)
    names = input_names(problem, case)
    for number, form in enumerate(forms):
        where = f"output {number}" if len(forms) > 1 else "the output"
        device = str(form.get("device", "cuda"))
        if not device.startswith("cuda"):
            message = f"{where} lies on {device} where the reference's is on the GPU"
            findings.append(Finding(kind="wrong_device", message=message, where=where))
        owners = [] if case.aliases else form.get("aliases", ())
        findings += [_aliased(str(owner), names, where) for owner in owners[:1]]
    return findings


def _aliased(owner: str, names: Sequence[str], where: str) -> Finding:
    kind, _, number = owner.partition(" ")
    if kind == "input" and number.isdigit() and int(number) < len(names):
        owner = f"input {names[int(number)]}"
    return Finding(
        kind="aliased_output",
        message=f"{where} lies in the memory of {owner}: whoever changes one changes the other",
        where=where,
        cure="allocate the output anew in every forward (torch.empty_like), and return nothing that is kept",
    )


def reused(where: str) -> Finding:
    """An answer that a later call overwrote while its holder still had it."""
    return Finding(
        kind="aliased_output",
        message="a later call changes the answer that an earlier one returned and somebody still holds",
        where=where,
        cure="allocate the output anew in every forward (torch.empty_like), and return nothing that is kept",
    )


# ---------------------------------------------------------------------------------------------- what it was given


def judge_inputs(problem: Problem, case: Case, copies: Sequence[torch.Tensor]) -> list[Finding]:
    """Inputs that a call changed and the reference does not."""
    if case.changes_inputs:
        return []
    names = input_names(problem, case)
    return [
        input_mutated(name)
        for name, before, after in zip(names, input_tensors(case), copies, strict=True)
        if not same_bytes(before, after)
    ]


def judge_overruns(overruns: Sequence[Overrun]) -> list[Finding]:
    """Memory beside a shared tensor that somebody wrote to."""
    return [
        Finding(
            kind="out_of_bounds",
            message=f"a kernel writes {over.side} {over.name or 'a tensor'}: {over.changed} bytes of the guard band "
            f"there changed, the nearest {over.nearest} bytes away",
            where=over.name,
            cure="mask every store; look at offsets that may pass the end of a tensor",
        )
        for over in overruns
    ]
