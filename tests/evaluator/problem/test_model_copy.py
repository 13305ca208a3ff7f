"""Copies of a reference's module share nothing with it, not even through functions that its constructor made."""

import torch
from torch import nn

from egg_graph.evaluator.problem.model_copy import copy_of


class Block(nn.Module):
    """Like a GPT block that keeps its MLP's forward as a lambda."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.ModuleDict({"up": nn.Linear(4, 8), "down": nn.Linear(8, 4)})
        parts = self.mlp
        self.forward_of_mlp = lambda x: parts.down(parts.up(x).relu())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.forward_of_mlp(x)


def test_a_function_over_a_part_of_the_module_is_over_the_copys() -> None:
    model = nn.Sequential(Block())
    copied = copy_of(model).double()
    x = torch.randn(3, 4)
    assert torch.allclose(copied(x.double()).float(), model(x), atol=1e-6)
    with torch.no_grad():
        for weight in copied.parameters():
            weight.zero_()
    assert torch.equal(copied(x.double()), x.double())
    assert not torch.equal(model(x), x)
