"""Errors summed piece by piece are those of the whole answer, whatever its form."""

import math

import pytest
import torch

from egg_graph.evaluator.problem.error_sums import all_within, pieces, sum_errors
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.leaf_comparison import compare_leaf


@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (2, 9, 4), (0, 3)])
def test_pieces_cover_every_element_once(shape: tuple[int, ...]) -> None:
    numbers = torch.arange(math.prod(shape)).reshape(shape)
    seen = [x for piece, twin in pieces(numbers, numbers, size=4) for x in piece.flatten().tolist() if twin is not None]
    assert sorted(seen) == numbers.flatten().tolist()


@pytest.mark.parametrize("complex_numbers", [False, True])
def test_sums_of_pieces_are_the_errors_of_the_whole(monkeypatch: pytest.MonkeyPatch, complex_numbers: bool) -> None:
    torch.manual_seed(1)
    dtype = torch.complex128 if complex_numbers else torch.float64
    expected = torch.randn(40, 30, dtype=dtype)
    expected[3, 4] = math.inf
    got = expected * 1.001 + 1e-4 * torch.randn(40, 30, dtype=dtype)
    whole = sum_errors(got, expected)
    monkeypatch.setattr(pieces, "__kwdefaults__", {"size": 64})
    for layout in (got, got.t().contiguous().t()):
        parts = sum_errors(layout, expected)
        for name in ("relative", "bias", "largest", "norm", "rms"):
            assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-12)
    assert whole.bias == pytest.approx(1e-3, rel=0.05)
    assert all_within(got, expected, whole.largest, 0.0, 0.0)
    assert not all_within(got, expected, 0.99 * whole.largest, 0.0, 0.0)


def test_a_wrong_answer_is_told_as_wrong_where_memory_does_not_suffice_to_say_how(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was taken for an answer that cannot be judged: a kernel wrong at full shape alone was called correct."""

    def no_memory(*args: object) -> None:
        raise torch.OutOfMemoryError("16 GiB")

    monkeypatch.setattr("egg_graph.evaluator.problem.leaf_comparison._measure_errors", no_memory)
    expected = torch.ones(64, dtype=torch.float64)
    leaf = ExpectedLeaf(expected, torch.float32, budget=1e-6, slack=1e-6, pytorch_error=1e-7)
    result = compare_leaf(torch.zeros(64), leaf, where="the output", precision="tf32", emulated_error=lambda _: None)
    assert [finding.kind for finding in result.findings] == ["wrong_values"]


def test_the_first_wrong_element_is_named_whatever_the_form() -> None:
    for shape in ((), (5,), (2, 3)):
        expected = torch.zeros(shape, dtype=torch.int64)
        leaf = ExpectedLeaf(expected, torch.int64, budget=0.0, slack=0.0, pytorch_error=0.0)
        wrong = expected.clone()
        wrong.view(-1)[-1] = 9
        result = compare_leaf(wrong, leaf, where="the output", precision="tf32", emulated_error=lambda _: None)
        last = [size - 1 for size in shape]
        assert f"1 of {expected.numel()} elements differ; first at {last}: got 9" in result.findings[0].message
