"""An error that all elements share is none of rounding; patterns of wrong answers are named."""

import pytest
import torch

from egg_graph.evaluator.problem.budgets import calibrate_leaf
from egg_graph.evaluator.problem.error_sums import sum_errors
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.leaf_comparison import compare_leaf
from egg_graph.schema import Finding


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def bf16_leaf(exact: torch.Tensor) -> ExpectedLeaf:
    answer = exact.to(torch.bfloat16)
    return calibrate_leaf(answer, exact.double(), None, [], "bf16")


def verdict(got: torch.Tensor, leaf: ExpectedLeaf) -> tuple[Finding, ...]:
    return compare_leaf(got, leaf, where="", precision="bf16", emulated_error=lambda kind: None).findings


def test_bias_is_a_common_offset_or_factor() -> None:
    x = draw(400, 400).double()
    assert sum_errors(x, x).bias == 0.0
    assert sum_errors(1.01 * x, x).bias == pytest.approx(0.01)
    assert sum_errors(x + 0.02, x).bias == pytest.approx(0.02, rel=0.1)
    assert sum_errors(x + 0.01 * draw(400, 400, seed=1), x).bias < 2e-4


@pytest.mark.parametrize("change", [lambda x: 1.004 * x, lambda x: x + 0.004])
def test_a_small_bias_does_not_hide_in_the_budget_for_rounding(change) -> None:
    exact = draw(2048, 2048)
    leaf = bf16_leaf(exact)
    assert verdict(exact.to(torch.bfloat16), leaf) == ()
    noisy = exact * (1 + 0.003 * draw(2048, 2048, seed=2))
    assert verdict(noisy.to(torch.bfloat16), leaf) == ()
    (finding,) = verdict(change(exact).to(torch.bfloat16), leaf)
    assert finding.kind == "wrong_values"
    assert "all elements share an error" in finding.message


def test_a_truncating_cast_is_a_bias_and_a_rounding_one_is_not() -> None:
    exact = draw(2048, 2048).abs() + 0.5
    leaf = bf16_leaf(exact)
    truncated = (exact.view(torch.int32) & -0x10000).view(torch.float32).to(torch.bfloat16)
    assert [finding.kind for finding in verdict(truncated, leaf)] == ["wrong_values"]


def test_a_row_of_few_elements_is_not_held_to_an_average() -> None:
    exact = torch.tensor([1.0, 2.0, 3.0])
    leaf = bf16_leaf(exact)
    assert leaf.bias_budget == leaf.budget


def test_a_factor_or_an_offset_per_index_is_named() -> None:
    expected = draw(30, 20, 10)
    leaf = ExpectedLeaf(expected.double(), torch.float32, 1e-5, slack=1e-6, pytorch_error=1e-7)
    scale = 1 + 0.3 * draw(20, 1, seed=4).abs()
    (finding,) = verdict(expected * scale, leaf)
    assert "times a factor for each index of dimension 1" in finding.message
    (finding,) = verdict(expected + draw(30, 1, 1, seed=5), leaf)
    assert "plus an offset for each index of dimension 0" in finding.message
