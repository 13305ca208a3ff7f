"""Arguments of the constructor, and sizes of the inputs, that were judged at one value."""

from egg_graph.evaluator.evidence.statements import unvaried_sizes_statement, unvaried_statement
from egg_graph.evaluator.problem.unvaried import unvaried_arguments, unvaried_sizes

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


def test_names_sizes_of_inputs_that_no_judged_shape_varied():
    source = SOURCE.replace("DIM = 64", "DIM = 64\nSTEPS, ROWS = 32, 16").replace("(4, DIM)", "(STEPS, ROWS, 4, DIM)")
    fixed = unvaried_sizes(source, [{"ROWS": 2}, {"ROWS": 3}])
    assert fixed == {"STEPS": 32}, "one that the constructor takes is told with its arguments, a small one not at all"
    assert unvaried_sizes_statement(fixed) == "other sizes of the inputs than STEPS = 32"
