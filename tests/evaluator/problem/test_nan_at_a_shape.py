"""A shape at which PyTorch gives NaN is not judged where it gives none at the first one."""

from contextlib import suppress

import torch

from egg_graph.evaluator.problem.case import Unevaluable
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.knowledge import load_hardware
from egg_graph.schema import KernelTask

LAST_KEYS = """import torch
from torch import nn

QUERIES = 1024
KEYS = 1024


class Model(nn.Module):
    \"\"\"Causal attention whose last query sees the last key: where there are more queries, the first see none.\"\"\"

    def forward(self, q, k):
        places = torch.arange(len(q))[:, None] + len(k) - len(q)
        return torch.softmax((q @ k.T).masked_fill(torch.arange(len(k)) > places, -torch.inf), 1)


def get_inputs():
    return [torch.randn(QUERIES, 16), torch.randn(KEYS, 16)]
"""


def test_shapes_with_queries_that_see_no_key_are_not_judged() -> None:
    problem = Problem(KernelTask(reference=LAST_KEYS, name="n", target=load_hardware("h200")), 1, torch.device("cpu"))
    names = [*problem.shapes, *problem.long_names]
    assert len(problem.shapes) == 2 and len(names) > 2
    for name in names:
        with suppress(Unevaluable):
            assert not problem.cases(name)[0].holds_nan, problem.sizes(name)
