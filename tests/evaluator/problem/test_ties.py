"""What is equal in every draw of an input stays equal in its families."""

import torch

from egg_graph.evaluator.problem.families import FAMILIES, apply
from egg_graph.evaluator.problem.ties import find_ties


def table(seed: int) -> torch.Tensor:
    half = torch.rand(64, 32, generator=torch.Generator().manual_seed(seed))
    return torch.cat([half, half], dim=-1)


def test_halves_that_are_equal_in_every_draw_stay_equal() -> None:
    ties = find_ties([table(seed) for seed in range(3)])
    assert ties is not None
    for family in FAMILIES:
        (moved,) = apply(family, [table(7)], 1, [ties])
        assert torch.equal(moved[:, :32], moved[:, 32:]), family
    (loose,) = apply("outlier", [table(7)], 1)
    assert not torch.equal(loose[:, :32], loose[:, 32:])


def test_elements_that_are_equal_by_chance_are_free() -> None:
    drawn = [torch.rand(1 << 16, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    assert find_ties(drawn) is None
    assert find_ties([torch.randint(0, 9, (4096,)).float() for _ in range(3)]) is None
