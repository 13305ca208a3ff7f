"""Build the case of one input family, and refuse families on which the reference has no answer to judge by."""

from __future__ import annotations

import torch

from egg_graph.evaluator.problem.case import Case, Unevaluable
from egg_graph.evaluator.problem.case_builder import build_like, draw_inputs, require_exact
from egg_graph.evaluator.problem.domain import holds_non_finite, makes_non_finite
from egg_graph.evaluator.problem.equal_choices import depends_on_choice
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.exponents import NO_FRACTION, largest_exponent
from egg_graph.evaluator.problem.families import FAMILIES, InputFamily, apply
from egg_graph.evaluator.problem.family_budgets import widen
from egg_graph.evaluator.problem.host_reads import reads_on_the_host
from egg_graph.evaluator.problem.operators import (
    EXACT,
    INTEGER_ARITHMETIC,
    ORDERS_EQUALS,
    PRODUCTS,
    RECURRENCE,
    UNDEFINED,
    VIEWS,
)
from egg_graph.evaluator.problem.reference import Reference
from egg_graph.evaluator.problem.tie_search import ties_of_drawn
from egg_graph.evaluator.problem.weights import round_to_six_bits
from egg_graph.schema import FP32, TF32, Precision

MOST_BUDGET = 0.1
"""Drop a family on which right answers may be further off than this: errors that large do not add up, so that those of
another kernel are no multiple of PyTorch's."""


def build_family_case(case: Case, reference: Reference, precision: Precision, *, family: str, seed: int) -> Case:
    """Build a case of the same form and constructor arguments, with inputs of one family.

    Its weights are those of `case`; an `exact` family rounds them to few significant bits.

    Args:
        case: the case on the inputs as `get_inputs` draws them.
        reference: its reference.
        precision: the task's policy.
        family: a key of `FAMILIES`.
        seed: seed of the inputs.

    Raises:
        BadInput: if PyTorch refuses such inputs.
        Unevaluable: if its answer to them cannot be judged.
    """
    row = FAMILIES[family]
    inputs = draw_inputs(reference, seed + 1, case.device)
    # A wrong index would end a GPU's context.
    plain = case.operators <= INTEGER_ARITHMETIC | VIEWS
    if row.moves_integers and (not plain or reads_on_the_host(case, precision)):
        raise Unevaluable("its integers are more than numbers: indices or labels, or it is not known what they are")
    model = round_to_six_bits(case.model) if row.exact and case.state else None
    moved = apply(family, inputs, seed, ties_of_drawn(case, reference, inputs))
    other = build_like(case, reference, precision, seed=seed, inputs=moved, model=model, family=family)
    _refuse_unjudgeable(other, case, row)
    if not row.makes_infinities and depends_on_choice(other, precision):
        raise Unevaluable("which of equal numbers is selected decides there, and that is nobody's contract")
    exponent = 0.0 if row.makes_infinities else largest_exponent(other, precision)
    if exponent >= NO_FRACTION > largest_exponent(case, precision):
        raise Unevaluable("an exponential takes numbers of which fp32 keeps no fraction there: rounding decides")
    if (most := max((leaf.budget for leaf in other.leaves if not leaf.exact), default=0.0)) > MOST_BUDGET:
        raise Unevaluable(f"right answers may be {most:.0%} off there: rounding decides")
    other.leaves = widen(other, exponent)
    known = torch.float32 not in other.rounds_to  # else PyTorch's answer is compared with itself
    if row.exact and known and precision in FP32 and other.operators <= EXACT | VIEWS:
        other.leaves = _exact_leaves(other, precision)
    overflows = holds_non_finite([leaf.expected for leaf in other.leaves])
    other.beyond_finite = (row.makes_infinities or overflows) and not makes_non_finite(case, precision)
    return other


def _exact_leaves(case: Case, precision: Precision) -> list[ExpectedLeaf]:
    """The leaves; those that both PyTorch and products of the policy's operands give exactly allow no error.

    A product of a product's result is no longer of few bits. PyTorch may give it in fp32 all the same.
    """
    if precision not in TF32:
        return [require_exact(leaf) for leaf in case.leaves]
    reduced = case.emulate("truncated" if precision == "tf32_truncated" else "tf32")
    return [
        require_exact(leaf)
        if reduced is not None and torch.equal(reduced[i].to(leaf.expected), leaf.expected)
        else leaf
        for i, leaf in enumerate(case.leaves)
    ]


def _refuse_unjudgeable(other: Case, case: Case, family: InputFamily) -> None:
    """Raise `Unevaluable` if PyTorch's answer on a family is not one that every right kernel gives."""
    if other.holds_nan and not case.holds_nan:
        raise Unevaluable("PyTorch's own answer holds NaN there")
    if UNDEFINED in other.operators - case.operators:
        raise Unevaluable("the reference converts NaN, or what is out of range, to integers there")
    if family.makes_infinities and other.operators & (PRODUCTS | {RECURRENCE}):
        raise Unevaluable(
            "infinities within matrix products and recurrences are no contract: a part taken first is NaN"
        )
    if family.makes_equals and other.operators & ORDERS_EQUALS and any(leaf.exact for leaf in other.leaves):
        raise Unevaluable("which index stands for equal values is nobody's contract")
