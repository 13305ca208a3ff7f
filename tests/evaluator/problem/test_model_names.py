"""Sizes that `Model` reads by their module-level names stay as they are."""

from egg_graph.evaluator.problem.aligned_shapes import choose_aligned_shapes
from egg_graph.evaluator.problem.model_names import names_read_by_model
from egg_graph.evaluator.problem.shapes import choose_shapes

PAGED = """
import torch

TOKENS, WIDTH, BLOCK, DIM = 512, 64, 32, 96
SCALE = DIM**-0.5
BLOCKS = (TOKENS + BLOCK - 1) // BLOCK

def block_of(at):
    return at // BLOCK

class Model(torch.nn.Module):
    def __init__(self, WIDTH):
        super().__init__()

    def forward(self, x, scales, y):
        at = torch.arange(x.shape[0], device=x.device)
        return SCALE * x * scales[block_of(at)] + y.sum()

def get_inputs():
    return [torch.rand(TOKENS, WIDTH), torch.rand(BLOCKS, WIDTH), torch.rand(DIM)]

def get_init_inputs():
    return [WIDTH]
"""


def test_names_are_followed_into_functions_and_parameters_are_none() -> None:
    read = names_read_by_model(PAGED)
    assert read & {"TOKENS", "WIDTH", "BLOCK", "BLOCKS", "SCALE", "DIM"} == {"BLOCK", "SCALE", "DIM"}


def test_what_the_model_reads_keeps_its_size() -> None:
    shapes = [*choose_shapes(PAGED), *choose_aligned_shapes(PAGED)]
    assert any(shapes) and all(not shape.keys() & {"BLOCK", "DIM"} for shape in shapes)


def test_where_no_other_shape_is_small_it_changes_all_the_same() -> None:
    large = PAGED.replace("512, 64, 32, 96", "512, 64, 1 << 20, 96").replace(
        "torch.rand(BLOCKS, WIDTH)", "torch.rand(BLOCK, WIDTH)"
    )
    assert all("BLOCK" in shape for shape in choose_shapes(large))
