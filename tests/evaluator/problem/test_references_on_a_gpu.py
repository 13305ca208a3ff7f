"""A reference may ask for a GPU by name: it is judged without one all the same."""

import torch

from egg_graph.evaluator.problem.reference import load_reference

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, size, device="cuda"):
        super().__init__()
        self.linear = nn.Linear(size, size, device=device)
        self.register_buffer("scale", torch.ones(size).to("cuda:0"))

    def forward(self, x):
        return self.linear(x) * self.scale


def get_inputs():
    place = torch.device("cuda")
    return [torch.randn(8, 16, device=place) + torch.zeros(16).cuda(), torch.randint(0, 4, (8,), device="cuda")]


def get_init_inputs():
    return [16]
"""


def test_inputs_and_weights_are_those_of_a_reference_on_the_host() -> None:
    on_gpu, on_host = load_reference(SOURCE), load_reference(SOURCE.replace('"cuda"', '"cpu"'))
    for one, other in zip(on_gpu.inputs(3), on_host.inputs(3), strict=True):
        assert one.device.type == "cpu" and torch.equal(one, other)
    weights, same = on_gpu.model(5).state_dict(), on_host.model(5).state_dict()
    assert all(torch.equal(weights[name], same[name]) for name in same)
