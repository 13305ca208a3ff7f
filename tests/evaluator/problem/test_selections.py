"""Indices that are selected by value: which of equal values they name is nobody's contract, and all else is."""

import pytest
import torch

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.case_builder import build_case
from egg_graph.evaluator.problem.family_case import build_family_case
from egg_graph.evaluator.problem.leaf_comparison import compare_leaf, is_right
from egg_graph.evaluator.problem.reference import load_reference
from egg_graph.schema import Precision
from tests.evaluator.problem.test_families import reference

LOGITS = "torch.randn(16, 64)"
TOP = "torch.topk(torch.softmax(x[0], 1), 8, dim=1)"


def case_of(body: str, family: str = "", inputs: str = LOGITS, precision: Precision = "ieee") -> Case:
    loaded = load_reference(reference(body, inputs))
    base = build_case(loaded, precision, name="test", overrides={}, seed=3, device=torch.device("cpu"))
    return build_family_case(base, loaded, precision, family=family, seed=11) if family else base


def accepts(case: Case, got: torch.Tensor) -> bool:
    """Whether the indices, which are the second leaf, are right."""
    passed = compare_leaf(got, case.leaves[1], where="", precision="ieee", emulated_error=lambda kind: None).passed
    assert passed == is_right(got, case.leaves[1])
    return passed


def last_of_equals(values: torch.Tensor, count: int) -> torch.Tensor:
    """Indices of the largest values, the last of equal ones first."""
    return values.shape[1] - 1 - torch.sort(values.flip(1), dim=1, descending=True, stable=True).indices[:, :count]


@pytest.mark.parametrize(
    ("body", "count"),
    [(TOP, 8), ("torch.sort(torch.softmax(x[0], 1), dim=1, descending=True)", 64)],
)
def test_any_order_of_values_that_underflow_is_right(body: str, count: int) -> None:
    case = case_of(body, "huge")
    values = torch.softmax(case.inputs[0], 1)
    got = last_of_equals(values, count)
    assert (got != case.leaves[1].expected).double().mean() > 0.3, "the values are no ties"
    assert accepts(case, got)
    assert case.leaves[1].budget == 0.0


def test_an_index_of_another_value_is_wrong() -> None:
    for family in ("", "huge"):
        case = case_of(TOP, family)
        right = torch.topk(torch.softmax(case.inputs[0], 1), 8, dim=1).indices
        assert accepts(case, right)
        swapped = right[:, [1, 0, *range(2, 8)]]
        assert not accepts(case, swapped)
        assert not accepts(case, right + 64)
        assert not accepts(case, -1 - right)
        one = right.clone()
        one[5, 0] = one[5, 7]
        assert not accepts(case, one)


def test_no_index_may_be_named_twice() -> None:
    case = case_of(TOP, "huge")
    got = torch.topk(torch.softmax(case.inputs[0], 1), 8, dim=1).indices
    assert accepts(case, got)
    assert not accepts(case, torch.cat([got[:, :7], got[:, 6:7]], 1))
    assert not accepts(case, got[:, :1].expand(16, 8))


@pytest.mark.parametrize("keepdim", [True, False])
def test_a_maximum_that_fp32_cannot_tell_from_others_may_be_any_of_them(keepdim: bool) -> None:
    levels = "torch.where(x[0] > 0, 1.0 + x[0] * 2.0**-24, x[0])"
    case = case_of(f"torch.max({levels}, dim=1, keepdim={keepdim})")
    got = last_of_equals(torch.where(case.inputs[0] > 0, 1.0 + case.inputs[0] * 2.0**-24, case.inputs[0]), 1)
    got = got if keepdim else got[:, 0]
    assert (got != case.leaves[1].expected).any() and accepts(case, got)
    assert not accepts(case, case.inputs[0].argmin(1, keepdim=keepdim))


def test_a_stable_order_is_a_contract() -> None:
    case = case_of("torch.sort(torch.softmax(x[0], 1), dim=1, stable=True, descending=True)", "huge")
    assert case.leaves[1].selection is None


def test_what_is_computed_from_indices_is_no_selection() -> None:
    assert case_of(f"tuple({TOP})").leaves[1].selection is not None
    for body in ("(x[0], torch.topk(x[0], 8).indices // 2)", "(x[0], torch.topk(x[0], 8).indices.add_(1))"):
        assert case_of(body).leaves[1].selection is None


def test_values_that_rounding_tells_apart_are_no_ties() -> None:
    """What is selected from is an input itself, which nothing rounds."""
    case = case_of("torch.topk(x[0], 8, dim=1)", inputs="1.0 + torch.randn(16, 64) * 1e-6")
    right = torch.topk(case.inputs[0], 8, dim=1)
    assert accepts(case, right.indices)
    nearest = (right.values[:, 0] > right.values[:, 1]).nonzero()[0, 0]
    swapped = right.indices.clone()
    swapped[nearest, :2] = swapped[nearest, [1, 0]]
    assert not accepts(case, swapped)
