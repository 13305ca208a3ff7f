"""Check, before any candidate, whether a problem can tell a kernel from an empty one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.case import Case, Unevaluable
from egg_graph.evaluator.problem.case_builder import answer_unrandomized, draw_on, with_other_weights
from egg_graph.evaluator.problem.case_store import CaseStore
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.families import AS_GIVEN
from egg_graph.evaluator.problem.kernelbench_criterion import TOLERANCE
from egg_graph.evaluator.problem.null_answers import (
    OTHER_WEIGHTS,
    WITHOUT_INPUT,
    NullAnswer,
    accepted_by_kernelbench,
    describe_error,
    is_accepted,
    null_answers,
    tighten_budgets,
)
from egg_graph.evaluator.problem.reference import Reference, load_reference
from egg_graph.schema import BadInput, FindingKind

FULL_ON_CPU_BYTES, FULL_ON_CPU_FLOPS = 4e6, 1e9
"""On a CPU, test the fixed tolerance at the reference's own shape up to this many bytes and flops."""
FULL_ON_GPU_PART = 0.05
"""On a GPU, test it there if inputs, weights and outputs take at most this fraction of GPU memory."""


@dataclass
class Validity:
    """Whether candidates can be judged against a reference."""

    unevaluable: str = ""
    """Why no candidate can be judged; empty if one can."""
    kind: FindingKind = "degenerate_problem"
    """Kind of the finding if none can."""
    families: tuple[str, ...] = (AS_GIVEN,)
    """Names of the input families that candidates are judged on."""
    weaknesses: tuple[str, ...] = ()
    """Null answers that a fixed tolerance would accept, and weights that do not matter, in words."""


def check_validity(problem: CaseStore) -> Validity:
    """Build every reduced case, try the null answers on it, and list what a fixed tolerance would accept.

    This tightens the budgets of the problem's cases until they refuse the null answers.
    """
    weaknesses = list(_accepted_by_fixed_tolerance(problem))
    try:
        for name in problem.shapes:
            weaknesses += _refuse_null_answers(problem, name)
        families = tuple(case.family for case in problem.family_cases(problem.family_shape))
    except Unevaluable as error:
        return Validity(str(error), error.kind, weaknesses=tuple(weaknesses))
    return Validity(families=(AS_GIVEN, *families), weaknesses=tuple(dict.fromkeys(weaknesses)))


def _refuse_null_answers(problem: CaseStore, name: str) -> list[str]:
    """Tighten the budgets of one shape until every null answer fails.

    Returns:
        Null answers that are accepted all the same, in words.

    Raises:
        Unevaluable: if a null answer passes that no budget above PyTorch's own error refuses.
    """
    cases = problem.cases(name)
    reference = load_reference(problem.task.reference, problem.shapes[name])
    weaknesses = []
    for case in cases[:1]:
        seed = problem.seed(f"{name}/null", 0)
        other = problem.with_other_inputs(name, case, f"{name}/null")
        for null in null_answers(case, other, _reweight(case, reference, problem, seed)):
            if not is_accepted(null, case):
                continue
            if null.name in WITHOUT_INPUT:
                _refuse(null, cases, problem)
            elif null.name.startswith("a copy") and _is_accepted_on_all_families(null, problem):
                raise Unevaluable(
                    f"{null.name} passes within the error budget, whatever the inputs: nothing is computed"
                )
            elif null.name == OTHER_WEIGHTS:
                weaknesses.append(f"the weights do not matter: {OTHER_WEIGHTS} is the same within our budget")
    return weaknesses


def _refuse(null: NullAnswer, cases: list[Case], problem: CaseStore) -> None:
    """Tighten the budgets of all cases of one shape until they refuse a null answer; `Unevaluable` if they cannot."""
    tighter = tighten_budgets(null, cases[0], problem.task.precision)
    if tighter is not None:
        for case in cases:  # all seeds of a shape have one distribution
            case.leaves = [_limit_budget(leaf, like) for leaf, like in zip(case.leaves, tighter, strict=True)]
    if is_accepted(null, cases[0]):
        raise Unevaluable(
            f"the answer does not depend on the input, within the error budget: {null.name} would pass "
            f"({describe_error(cases[0])}); take inputs or sizes at which it does"
        )


def _limit_budget(leaf: ExpectedLeaf, like: ExpectedLeaf) -> ExpectedLeaf:
    return replace(leaf, budget=min(leaf.budget, like.budget))


def _is_accepted_on_all_families(null: NullAnswer, problem: CaseStore) -> bool:
    """Whether every family accepts a copy of an input too. (A ReLU copies positive numbers only.)

    The families of one shape tell: whether a function copies its input does not hang on sizes.
    """
    for case in problem.family_cases(problem.family_shape):
        same = next((n for n in null_answers(case, case) if n.name == null.name), None)
        if same is None or not is_accepted(same, case):
            return False
    return True


def _reweight(case: Case, reference: Reference, problem: CaseStore, seed: int) -> Case | None:
    """The same inputs under other weights; None if there are no weights or the answer cannot be judged."""
    if not any(value.is_floating_point() for value in case.state.values()):
        return None
    try:
        return with_other_weights(case, reference, problem.task.precision, seed=seed + 7)
    except Unevaluable:
        return None


def _accepted_by_fixed_tolerance(problem: CaseStore) -> list[str]:
    """Null answers that KernelBench's tolerance would accept, in words."""
    where, overrides = _choose_shape(problem)
    precision, device = problem.task.precision, problem.device
    try:
        reference = load_reference(problem.task.reference, overrides)
        first, second, third = (problem.seed("plain", index) for index in range(3))
        inputs, answer = answer_unrandomized(reference, precision, device, weights_seed=first, inputs_seed=first)
        _, other = answer_unrandomized(reference, precision, device, weights_seed=first, inputs_seed=second)
        reweighted = None
        if _has_weights(reference, device):
            _, reweighted = answer_unrandomized(reference, precision, device, weights_seed=third, inputs_seed=first)
    except (BadInput, torch.OutOfMemoryError):
        return []  # another check says why the reference fails
    given = [x for x in tree_leaves(inputs) if isinstance(x, torch.Tensor)]
    return [
        f"{name} would pass a fixed tolerance of {TOLERANCE[precision]:g} ({where})"
        for name in accepted_by_kernelbench(answer, other, given, reweighted, precision)
    ]


def _has_weights(reference: Reference, device: torch.device) -> bool:
    with draw_on(device):  # at full size: gigabytes of weights take seconds on a CPU
        return any(parameter.is_floating_point() for parameter in reference.model(0).parameters())


def _choose_shape(problem: CaseStore) -> tuple[str, dict[str, int]]:
    """The reference's own shape if it is affordable, otherwise the shrunk one: in words, and its overrides."""
    summary = problem.forward_summary
    if problem.device.type == "cpu":
        affordable = summary.compulsory_bytes <= FULL_ON_CPU_BYTES and summary.flops <= FULL_ON_CPU_FLOPS
    else:
        memory = torch.cuda.get_device_properties(problem.device).total_memory
        affordable = summary.compulsory_bytes <= FULL_ON_GPU_PART * memory
    if affordable:
        return "at its own shape", {}
    overrides = problem.shapes["shrunk"]
    return "at " + ", ".join(f"{name} = {value}" for name, value in overrides.items()), overrides
