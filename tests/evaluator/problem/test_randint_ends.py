"""Integers drawn for a problem: both ends of their range are there, and nothing beyond."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from egg_graph.evaluator.problem.randint_ends import RandintEnds
from egg_graph.evaluator.problem.reference import load_reference

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, classes):
        return nn.functional.cross_entropy(x, classes, ignore_index=0)


def get_inputs():
    return [torch.randn(16, 5000), torch.randint(0, 5000, (16,))]
"""


@pytest.mark.parametrize("seed", range(5))
def test_class_zero_and_the_last_one_are_among_few_of_many(seed: int) -> None:
    scores, classes = load_reference(SOURCE).inputs(seed)
    assert int(classes.min()) == 0 and int(classes.max()) == 4999
    assert classes.unique().numel() > 10, "the others are drawn as before"
    again = load_reference(SOURCE).inputs(seed)
    assert torch.equal(scores, again[0]) and torch.equal(classes, again[1])


@pytest.mark.parametrize(
    ("args", "kwargs", "ends"),
    [
        ((-3, 4, (64,)), {}, (-3, 3)),
        ((9, (4, 16)), {"dtype": torch.uint8}, (0, 8)),
        ((2,), {"high": 7, "size": (64,)}, (2, 6)),
        ((), {"low": 2, "high": 3, "size": (64,)}, (2, 2)),
    ],
)
def test_ends_are_those_of_the_call_however_it_is_written(args: tuple, kwargs: dict, ends: tuple[int, int]) -> None:
    with RandintEnds() as mode:
        drawn = torch.randint(*args, **kwargs)
    assert (int(drawn.min()), int(drawn.max())) == ends
    assert (mode.least(drawn), mode.greatest(drawn)) == ends
    assert mode.greatest(drawn.clone()) is None


def test_the_greatest_is_known_without_values_and_few_numbers_stay_as_drawn() -> None:
    with RandintEnds() as mode, FakeTensorMode():
        assert mode.greatest(torch.randint(0, 280_000, (4096,))) == 279_999
    with RandintEnds() as mode, FakeTensorMode():
        few = torch.randint(1, 513, (3,))
        assert (mode.least(few), mode.greatest(few)) == (1, None)
    torch.manual_seed(0)
    plain = torch.randint(0, 1000, (4,))
    torch.manual_seed(0)
    with RandintEnds():
        assert torch.equal(torch.randint(0, 1000, (4,)), plain)


def test_integers_that_are_written_out_are_known_without_values_until_they_are_changed() -> None:
    with RandintEnds() as mode, FakeTensorMode():
        sizes = torch.tensor([[32, 16], [8, 4]])
        assert mode.numbers(sizes) == (32, 16, 8, 4)
        assert mode.numbers(sizes.t()) is mode.numbers(torch.tensor([1.5, 2.0])) is None
        assert mode.numbers(torch.tensor([0] * 1025)) is mode.numbers(torch.randint(0, 9, (16,))) is None
        sizes[0] = 64
        assert mode.numbers(sizes) is None
