"""What is equal in every draw of an input stays equal in its families."""

from types import SimpleNamespace
from typing import Any, cast

import torch

from egg_graph.evaluator.problem.families import FAMILIES, apply
from egg_graph.evaluator.problem.tie_search import MOST_ELEMENTS, ties_of_drawn
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


def test_a_table_beside_a_large_input_keeps_its_ties() -> None:
    """A rotary table is small; what it turns holds more elements than are drawn several times."""
    inputs = [torch.rand(MOST_ELEMENTS // 64 + 1, 64), table(7), torch.full((32, 32), 0.5)]
    case: Any = SimpleNamespace(inputs=inputs, ties=None)
    ties = ties_of_drawn(case, cast(Any, None), inputs)
    assert ties[0] is None and ties[1] is not None and ties[2] is None
    moved = apply("outlier", inputs, 1, ties)
    assert torch.equal(moved[1][:, :32], moved[1][:, 32:]) and not torch.equal(moved[1], inputs[1])
