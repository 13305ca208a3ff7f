"""Arguments of the constructor that were judged at one value."""

from egg_graph.evaluator.evidence.statements import unvaried_statement
from egg_graph.evaluator.problem.constructor import unvaried_arguments

SOURCE = """
import torch

DIM = 64


class Model(torch.nn.Module):
    def __init__(self, dim, scale, *, bias=True, **options):
        super().__init__()

    def forward(self, x):
        return x


def get_inputs():
    return [torch.rand(4, DIM)]


def get_init_inputs():
    return [[DIM, 0.125], {"table": torch.arange(64), "mode": "max"}]
"""


def test_names_arguments_that_no_judged_shape_varied():
    fixed = unvaried_arguments(SOURCE, [{"DIM": 16}, {}])
    assert list(fixed) == ["scale", "table", "mode"]
    told = unvaried_statement(fixed)
    assert told.startswith("other arguments of the constructor than scale = 0.125, table = tensor([")
    assert told.endswith("…, mode = 'max'")


def test_says_nothing_where_the_constructor_takes_no_arguments():
    assert (
        unvaried_arguments(SOURCE.split("def get_init_inputs")[0].replace("dim, scale, *, ", ""), [{"DIM": 16}]) == {}
    )
