"""Other uses of a module: inputs that change in a few elements keep what the reference's own inputs promise."""

import torch

from egg_graph.evaluator.problem.problem import Problem
from egg_graph.knowledge import load_hardware
from egg_graph.schema import KernelTask

CHOSEN = """import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, chosen):
        return torch.zeros_like(x).scatter(1, chosen, x.gather(1, chosen)) + chosen[:, :1]

def get_inputs():
    chosen = torch.stack([torch.randperm(32)[:8] for _ in range(16)])
    return [torch.randn(16, 32), chosen]

def get_init_inputs():
    return []
"""


def test_what_was_chosen_without_putting_back_stays_so_in_every_row() -> None:
    task = KernelTask(reference=CHOSEN, name="chosen", target=load_hardware("h200"))
    seen = 0
    for seed in range(6):
        problem = Problem(task, seed, torch.device("cpu"))
        first = problem.cases("shrunk")[0]
        for case in problem.uses("shrunk").changed_inputs:
            before, now = first.inputs[1], case.inputs[1]
            assert torch.equal(before.sort(-1).values, now.sort(-1).values), "a row holds an element twice"
            seen += not torch.equal(before, now)
    assert seen, "the chosen elements never changed"
