"""Whether a problem can tell a kernel from an empty one: asked before any candidate, with answers nobody computed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.case import Case, Unevaluable, plain_answer, with_other_inputs, with_other_weights
from egg_graph.evaluator.problem.case_store import Cases
from egg_graph.evaluator.problem.families import AS_GIVEN
from egg_graph.evaluator.problem.kernelbench_criterion import TOLERANCE
from egg_graph.evaluator.problem.leaf_comparison import Leaf
from egg_graph.evaluator.problem.null_answers import (
    WITHOUT_INPUT,
    Null,
    accepted_by_kernelbench,
    nulls_of,
    passes,
    size_of,
    tightened,
)
from egg_graph.evaluator.problem.reference import Reference, load_reference
from egg_graph.schema import BadInput, FindingKind

FULL_ON_CPU_BYTES, FULL_ON_CPU_FLOPS = 4e6, 1e9
"""Up to this a reference is run at its own shape on a CPU to learn what a fixed tolerance would accept."""
FULL_ON_GPU_PART = 0.05
"""Of the GPU's memory that inputs, weights and outputs may take for the same."""


@dataclass
class Soundness:
    """What is known of a problem before any candidate."""

    unevaluable: str = ""
    """Why no candidate can be judged; empty when one can."""
    kind: FindingKind = "degenerate_problem"
    families: tuple[str, ...] = (AS_GIVEN,)
    weaknesses: tuple[str, ...] = ()


def examine(problem: Cases) -> Soundness:
    """Build every reduced case, put the nulls to them, and tell what a fixed tolerance would let through."""
    weak = list(_fixed_tolerance(problem))
    try:
        for name in problem.shapes:
            weak += _refuse_nulls(problem, name)
        families = tuple(case.family for case in problem.family_cases(problem.family_shape))
    except Unevaluable as error:
        return Soundness(str(error), error.kind, weaknesses=tuple(weak))
    return Soundness(families=(AS_GIVEN, *families), weaknesses=tuple(dict.fromkeys(weak)))


def _refuse_nulls(problem: Cases, name: str) -> list[str]:
    """Tighten the budgets of one shape until every null fails; returns what nulls get away with all the same.

    Raises:
        Unevaluable: if one passes that no budget above PyTorch's own error refuses.
    """
    precision = problem.task.precision
    cases = problem.cases(name)
    reference = load_reference(problem.task.reference, problem.shapes[name])
    weak = []
    for case in cases[:1]:
        seed = problem.seed(f"{name}/null", 0)
        other = with_other_inputs(case, reference, precision, name=name, seed=seed, device=problem.device)
        for null in nulls_of(case, other, _reweighted(case, reference, problem, seed)):
            if not passes(null, case, precision):
                continue
            if null.name in WITHOUT_INPUT:
                _refuse(null, cases, problem)
            elif null.name.startswith("a copy") and _passes_everywhere(null, problem, name):
                raise Unevaluable(
                    f"{null.name} passes within the error budget, whatever the inputs: nothing is computed"
                )
            elif null.name == "the answer under other weights":
                weak.append("the weights do not matter: the answer under other weights is the same within our budget")
    return weak


def _refuse(null: Null, cases: list[Case], problem: Cases) -> None:
    tighter = tightened(null, cases[0], problem.task.precision)
    if tighter is not None:
        for case in cases:  # one shape, one distribution
            case.leaves = [_no_wider(leaf, like) for leaf, like in zip(case.leaves, tighter, strict=True)]
    if passes(null, cases[0], problem.task.precision):
        raise Unevaluable(
            f"the answer does not depend on the input, within the error budget: {null.name} would pass "
            f"({size_of(cases[0])}); take inputs or sizes at which it does"
        )


def _no_wider(leaf: Leaf, like: Leaf) -> Leaf:
    return replace(leaf, budget=min(leaf.budget, like.budget))


def _passes_everywhere(null: Null, problem: Cases, name: str) -> bool:
    """Whether a copy of an input passes on every family too: a ReLU is one only of positive numbers."""
    for case in problem.family_cases(name):
        same = next((n for n in nulls_of(case, case) if n.name == null.name), None)
        if same is None or not passes(same, case, problem.task.precision):
            return False
    return True


def _reweighted(case: Case, reference: Reference, problem: Cases, seed: int) -> Case | None:
    if not any(value.is_floating_point() for value in case.state.values()):
        return None
    try:
        return with_other_weights(case, reference, problem.task.precision, seed=seed + 7)
    except Unevaluable:
        return None  # what that draw of weights hides, the case's own does not


# ------------------------------------------------------------------------------------------ a fixed tolerance


def _fixed_tolerance(problem: Cases) -> list[str]:
    """What KernelBench's tolerance would accept from a kernel that computes nothing. Ours is told apart above."""
    where, overrides = _at(problem)
    precision = problem.task.precision
    try:
        reference = load_reference(problem.task.reference, overrides)
        seeds = [problem.seed("plain", index) for index in range(3)]
        inputs, answer = plain_answer(reference, precision, problem.device, weights=seeds[0], inputs=seeds[0])
        _, other = plain_answer(reference, precision, problem.device, weights=seeds[0], inputs=seeds[1])
        has_weights = any(p.is_floating_point() for p in reference.model(0).parameters())
        reweighted = (
            plain_answer(reference, precision, problem.device, weights=seeds[2], inputs=seeds[0])[1]
            if has_weights
            else None
        )
    except (BadInput, torch.OutOfMemoryError):
        return []  # nothing to tell; why the reference fails is told elsewhere
    given = [x for x in tree_leaves(inputs) if isinstance(x, torch.Tensor)]
    return [
        f"{name} would pass a fixed tolerance of {TOLERANCE[precision]:g} ({where})"
        for name in accepted_by_kernelbench(answer, other, given, reweighted, precision)
    ]


def _at(problem: Cases) -> tuple[str, dict[str, int]]:
    """The reference's own shape where it is affordable, else the shrunk one."""
    plain = problem.plainly_surveyed
    if problem.device.type == "cpu":
        affordable = plain.compulsory_bytes <= FULL_ON_CPU_BYTES and plain.flops <= FULL_ON_CPU_FLOPS
    else:
        memory = torch.cuda.get_device_properties(problem.device).total_memory
        affordable = plain.compulsory_bytes <= FULL_ON_GPU_PART * memory
    if affordable:
        return "at its own shape", {}
    overrides = problem.shapes["shrunk"]
    return "at " + ", ".join(f"{name} = {value}" for name, value in overrides.items()), overrides
