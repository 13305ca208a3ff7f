"""Build cases: draw weights and inputs, run the reference, and calibrate how exactly a candidate must answer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map_only

from egg_graph.evaluator.problem.budgets import calibrate_leaf
from egg_graph.evaluator.problem.case import Case, Unevaluable, Update
from egg_graph.evaluator.problem.either_side import with_either_side
from egg_graph.evaluator.problem.error_sums import NO_ERRORS, ErrorSums, relative_error, sum_errors
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.families import AS_GIVEN
from egg_graph.evaluator.problem.operators import ATTENTION, EXPONENTIALS, MOVES, PRODUCTS, SELECTS, VIEWS
from egg_graph.evaluator.problem.precision import CAST, cast_as_policy_says, cast_model
from egg_graph.evaluator.problem.reference import Reference
from egg_graph.evaluator.problem.reference_runner import ExactAnswer, ReferenceRunner, require_one_answer
from egg_graph.evaluator.problem.roundings import FP32_ULP
from egg_graph.evaluator.problem.selections import Selection, calibrate_selection
from egg_graph.evaluator.problem.weights import copy_state, randomize_buffers, randomize_constants
from egg_graph.schema import FP32, TF32, Precision

Draw = Callable[[], list[Any]]
"""Draws the inputs of a case, before the policy's cast."""
FEW = 64
"""An answer of fewer elements, such as a loss, has few errors: all of them may be small by chance."""
FEW_DRAWS = 8
"""Nearby inputs that are run to set the budget of such an answer."""
EXPONENTIAL_DRAWS = 6
"""Nearby inputs that are run where exponentials are taken: of large numbers a few elements have nearly all of the
error, and it may be small by chance in two draws."""
SELECTED_DRAWS, MOST_SELECTED = 6, 1 << 20
"""Other roundings that are run to set the budget of an answer that a selection makes, and its most elements: the errors
that are left are those of the numbers selected, which may be small by chance, all of them together."""
TF32_ULP = 2.0**-10
"""Relative change of the inputs that shows how much a problem amplifies rounding, as a softmax of large scores does, if
products read operands that are rounded to TF32. Else it is fp32's."""
MOST_MOVED = 1 << 24
"""Elements of inputs and answers up to which every step of a nearby forward is rounded otherwise, too; not where inputs
move by an ulp of TF32, beside which that is nothing."""


def build_case(
    reference: Reference, precision: Precision, *, name: str, overrides: dict[str, int], seed: int, device: torch.device
) -> Case:
    """Build a case: randomize constant weights, and run the reference at the policy's precision and in fp64.

    Args:
        reference: the reference with `overrides` in place.
        precision: the task's policy.
        name: name of the shape.
        overrides: the integers that were replaced.
        seed: seed of weights and inputs.
        device: where to run.

    Raises:
        BadInput: if the reference cannot be run.
        Unevaluable: if its answer cannot be judged.
    """
    with draw_on(device):
        model = reference.model(seed).to(device)
    draw = partial(draw_inputs, reference, seed + 1, device)
    inputs = draw()

    def build(model: nn.Module) -> Case:
        model = cast_model(model, precision)
        return _build(
            reference, precision, model, inputs, name=name, overrides=overrides, seed=seed, device=device, draw=draw
        )

    try:
        case = build(randomize_constants(model, seed + 2))
        spoilt = case.holds_nan and bool(case.state)
    except Unevaluable:
        spoilt = True
    if spoilt:  # some weight must keep its sign: the reference takes its root, for example
        case = build(randomize_constants(model, seed + 2, signs=False))
    if not case.updates:
        return case
    return build(randomize_buffers(case.model, list(case.updates), seed + 4))


def with_other_inputs(
    case: Case, reference: Reference, precision: Precision, *, name: str, seed: int, device: torch.device
) -> Case:
    """Build a case with the model and weights of another case, and other inputs of the same form.

    Args:
        case: the case to take model and weights from.
        reference: its reference.
        precision: the task's policy.
        name: name of the new case.
        seed: seed of the inputs.
        device: where to run.

    Raises:
        BadInput: if the reference cannot be run.
        Unevaluable: if its answer cannot be judged, or the seed changes the form of the inputs.
    """
    draw = partial(draw_inputs, reference, seed + 1, device)
    other = build_like(case, reference, precision, seed=seed, name=name, inputs=draw(), draw=draw)
    if [_form(x) for x in tree_leaves(other.inputs)] != [_form(x) for x in tree_leaves(case.inputs)]:
        raise Unevaluable("the inputs' form or their plain numbers change with the seed")
    return other


def with_other_weights(case: Case, reference: Reference, precision: Precision, *, seed: int) -> Case:
    """Build a case with the inputs of another case, and other weights.

    Args:
        case: the case to take the inputs from.
        reference: its reference.
        precision: the task's policy.
        seed: seed of the weights.

    Raises:
        BadInput: if the reference cannot be run.
        Unevaluable: if its answer cannot be judged.
    """
    with draw_on(case.device):
        model = reference.model(seed)
    model = cast_model(randomize_constants(model.to(case.device), seed + 2), precision)
    return build_like(case, reference, precision, seed=seed, model=model)


def build_like(
    case: Case,
    reference: Reference,
    precision: Precision,
    *,
    seed: int | None = None,
    name: str = "",
    inputs: list[Any] | None = None,
    model: nn.Module | None = None,
    family: str = AS_GIVEN,
    draw: Draw | None = None,
) -> Case:
    """Build a case that differs from another one in the arguments that are given.

    Args:
        case: the other case.
        reference: its reference.
        precision: the task's policy.
        seed: seed of the new case.
        name: name of the new case.
        inputs: inputs of the new case, on the case's device.
        model: a copy of the reference's module with other weights, cast as the policy says.
        family: name of the family of the inputs.
        draw: draws `inputs` again; None if they cannot be drawn again.

    Raises:
        BadInput: if PyTorch refuses the inputs or the model.
        Unevaluable: if the answer cannot be judged.
    """
    return _build(
        reference,
        precision,
        case.model if model is None else model,
        case.inputs if inputs is None else inputs,
        state=case.state if model is None else None,
        name=name or case.name,
        overrides=case.overrides,
        seed=case.seed if seed is None else seed,
        device=case.device,
        family=family,
        draw=draw,
    )


def answer_unrandomized(
    reference: Reference, precision: Precision, device: torch.device, *, weights_seed: int, inputs_seed: int
) -> tuple[list[Any], list[torch.Tensor]]:
    """Draw inputs, and run PyTorch on them at the declared precision with the constructor's own weights.

    Args:
        reference: the reference.
        precision: the task's policy.
        device: where to run.
        weights_seed: seed of the constructor.
        inputs_seed: seed of `get_inputs`.

    Returns:
        The inputs and the leaves of the answer.

    Raises:
        BadInput: if the reference cannot be run.
    """
    with draw_on(device):
        model, inputs = reference.model(weights_seed), reference.inputs(inputs_seed)
    inputs = cast_as_policy_says(move_to(device, inputs), precision)
    runner = ReferenceRunner(cast_model(model.to(device), precision), inputs, inputs_seed, device)
    return inputs, runner.at(precision).leaves


def draw_inputs(reference: Reference, seed: int, device: torch.device) -> list[Any]:
    """Draw the arguments of forward on a device. Those of the case with seed s are drawn under s + 1.

    Raises:
        BadInput: if `get_inputs` fails.
    """
    with draw_on(device):
        inputs = reference.inputs(seed)
    return move_to(device, inputs)


def draw_on(device: torch.device) -> AbstractContextManager[Any]:
    """While active, torch's constructors draw on the GPU, so that gigabytes need not pass through the CPU."""
    return torch.device(device) if device.type == "cuda" else nullcontext()


def move_to(device: torch.device, inputs: list[Any]) -> list[Any]:
    """Move all tensors of the inputs to a device."""
    return list(tree_map_only(torch.Tensor, lambda x: x.to(device), inputs))


def require_exact(leaf: ExpectedLeaf) -> ExpectedLeaf:
    """Allow no error at all, if PyTorch's own answer has none."""
    if leaf.exact or leaf.pytorch is None or not torch.equal(leaf.pytorch.to(leaf.expected.dtype), leaf.expected):
        return leaf
    return replace(leaf, budget=0.0, slack=0.0, bias_budget=0.0)


def _build(
    reference: Reference,
    precision: Precision,
    model: nn.Module,
    inputs: list[Any],
    *,
    name: str,
    overrides: dict[str, int],
    seed: int,
    device: torch.device,
    state: dict[str, torch.Tensor] | None = None,
    family: str = AS_GIVEN,
    draw: Draw | None = None,
) -> Case:
    """Run the reference and calibrate the budgets. `state` is the model's, where it has been copied before."""
    state = copy_state(model) if state is None else state
    inputs = cast_as_policy_says(inputs, precision)
    runner = ReferenceRunner(model, inputs, seed + 3, device)
    first = runner.at(precision)
    if not any(leaf.numel() for leaf in first.leaves):
        raise Unevaluable("the reference's answer has no element")
    require_one_answer(runner, precision, first.leaves)
    exact = runner.exactly(first.leaves)
    chosen = zip(first.selections, exact.selections, strict=True)
    selections = [calibrate_selection(rounded, wide, precision) for rounded, wide in chosen]
    leaves = _calibrate(runner, precision, first.leaves, exact, selections, family)
    if exact.operators <= MOVES | VIEWS:
        leaves = [require_exact(leaf) for leaf in leaves]
    names = reference.forward_names(len(inputs))
    return Case(
        name=name,
        overrides=overrides,
        seed=seed,
        inputs=inputs,
        state=state,
        structure=first.structure,
        leaves=leaves,
        against=exact.against,
        input_shapes={n: tuple(x.shape) for n, x in zip(names, inputs, strict=True) if isinstance(x, torch.Tensor)},
        forward_seed=runner.seed,
        model=model,
        emulate=runner.emulate,
        family=family,
        updates={name: _update(value, exact.updates.get(name, value)) for name, value in first.updates.items()},
        changes_inputs=first.changes_inputs,
        aliases=first.aliases,
        operators=exact.operators,
        rounds_to=exact.rounds_to,
        remaker=None if draw is None else _Remaker(draw, runner, precision, exact.against),
    )


@dataclass(frozen=True)
class _Remaker:
    """Makes the tensors of a case again, as `_build` made them."""

    draw: Draw
    runner: ReferenceRunner
    precision: Precision
    against: str

    def remake(self) -> tuple[list[Any], list[torch.Tensor], list[torch.Tensor]]:
        inputs = self.runner.inputs = cast_as_policy_says(self.draw(), self.precision)
        answer = self.runner.at(self.precision).leaves
        return inputs, self.runner.exactly(answer, self.against).leaves, answer

    def forget(self) -> None:
        self.runner.inputs = []


def _calibrate(
    runner: ReferenceRunner,
    precision: Precision,
    answer: list[torch.Tensor],
    exact: ExactAnswer,
    selections: list[Selection | None],
    family: str,
) -> list[ExpectedLeaf]:
    """Set the budgets of all leaves. On input families, and where fp32 is the best that the reference runs in, answers
    to nearby inputs widen them; on the inputs as given, numbers of the module in fp32 do, and other roundings where the
    answer is what a selection left.

    One further answer is held at a time: each has the size of the reference's own.
    """
    in_fp32 = _errors(runner.at("ieee").leaves, exact.leaves) if precision in TF32 else None
    others = []
    # PyTorch may compute some products (attention) in fp32 though TF32 is allowed; the policy allows TF32 to everyone.
    in_tf32 = runner.emulate("tf32") if precision in TF32 and runner.device.type == "cuda" else None
    emulated = runner.device.type != "cuda" or in_tf32 is not None
    if in_tf32 is not None:
        others.append(_errors(in_tf32, exact.leaves))
        del in_tf32
    if precision == "tf32_truncated" and (truncated := runner.emulate("truncated")) is not None:
        others.append(_errors(truncated, exact.leaves))
        del truncated
    if precision in CAST and exact.operators & (PRODUCTS | {"sum", "mean"}):
        others += [_errors(halves, exact.leaves) for halves in runner.in_halves(exact.leaves, CAST[precision])]
    rounded = precision in TF32 and bool(exact.operators & PRODUCTS)
    few = sum(leaf.numel() for leaf in exact.leaves) <= MOST_SELECTED
    if family == AS_GIVEN and rounded and emulated and exact.operators & SELECTS and few:
        others += [_errors(drawn, exact.leaves) for drawn in runner.rounded_otherwise(exact.leaves, SELECTED_DRAWS)]
    if family == AS_GIVEN and precision in FP32 and exact.against == "fp64":
        others += [_errors(leaves, exact.leaves) for leaves in runner.with_numbers_in_fp32(exact)]
    if family != AS_GIVEN or exact.against == "fp32":
        ulp, draws = (TF32_ULP, 4) if rounded else (FP32_ULP, 2)
        if exact.operators & (EXPONENTIALS | ATTENTION):
            draws = EXPONENTIAL_DRAWS
        if any(leaf.numel() < FEW for leaf in exact.leaves):
            draws = FEW_DRAWS
        moved = [*exact.leaves, *(x for x in tree_leaves(runner.inputs) if isinstance(x, torch.Tensor))]
        few_enough = sum(x.numel() for x in moved) <= MOST_MOVED  # every step draws as many numbers as it computes
        near = runner.nearby(exact, ulp, draws, rounded=few_enough and not rounded)
        others += [_errors(leaves, exact.leaves) for leaves in near]
    leaves = [
        calibrate_leaf(
            a,
            e,
            in_fp32[i] if in_fp32 else None,
            [errors[i] for errors in others],
            precision,
            selections[i],
            exact.rounds_to,
        )
        for i, (a, e) in enumerate(zip(answer, exact.leaves, strict=True))
    ]
    return with_either_side(runner, leaves, exact) if exact.against == "fp64" else leaves


def _errors(answer: list[torch.Tensor], exact: list[torch.Tensor]) -> list[ErrorSums]:
    """Errors of each leaf against fp64; those of integers are not looked at."""
    return [
        sum_errors(a, e) if a.dtype.is_floating_point or a.dtype.is_complex else NO_ERRORS
        for a, e in zip(answer, exact, strict=True)
    ]


def _update(value: torch.Tensor, expected: torch.Tensor) -> Update:
    """The expected value of an updated buffer, with a budget from PyTorch's own error at the declared precision."""
    if not value.is_floating_point():
        return Update(expected, 0.0)
    return Update(expected, max(1e-3, 8 * relative_error(value, expected)))


def _form(value: Any) -> Any:
    """Shape, dtype and strides of a tensor; any other value itself."""
    return (value.shape, value.dtype, value.stride()) if isinstance(value, torch.Tensor) else value
