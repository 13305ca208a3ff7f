"""Numbers that a reference's constructor computes and no tensor's size tells."""

import pytest

from egg_graph.expert.capture.export import export_graph
from egg_graph.expert.codegen.module import write_module
from egg_graph.expert.codegen.reference import CannotWrite
from egg_graph.expert.playbooks.planner import make_plan, write_kernels
from egg_graph.expert.playbooks.registry import PLAYBOOKS

SCALED = """
import torch
from torch import nn

HEAD_DIM = 64


class Model(nn.Module):
    def __init__(self, head_dim):
        super().__init__()
        self.scale = head_dim ** -0.5

    def forward(self, scores, mask):
        return torch.softmax(scores * self.scale + mask, dim=-1)


def get_inputs():
    return [torch.randn(8, 16, 512, 1024), torch.randn(8, 1, 1, 1024)]


def get_init_inputs():
    return [HEAD_DIM]
"""


def write(source: str) -> str:
    plan = make_plan(export_graph(source, "ieee"), PLAYBOOKS)
    return write_module(source, plan, write_kernels(plan, PLAYBOOKS, "ieee"))


@pytest.mark.parametrize("argument", ["HEAD_DIM", "64"])
def test_a_number_that_the_constructor_computes_is_read_from_the_module(argument):
    """`head_dim` is no tensor's size, and the judged shapes may vary it."""
    forward = write(SCALED.replace("[HEAD_DIM]", f"[{argument}]")).split("def forward")[-1]
    assert "self.scale" in forward
    assert "0.125" not in forward


def test_a_number_that_the_module_does_not_hold_is_refused_with_the_cure():
    hidden = SCALED.replace("self.scale = head_dim ** -0.5", "self._scale = head_dim ** -0.37")
    with pytest.raises(
        CannotWrite, match=r"varies with .*HEAD_DIM.* let Model.__init__ hold it: self\.x = "
    ) as refusal:
        write(hidden.replace("scores * self.scale", "scores * self._scale"))
    assert "\n" not in str(refusal.value)
