"""A reference that needs more memory than there is for a better answer is short of memory, and not unevaluable."""

import pytest
import torch
from torch import nn

from egg_graph.block_values import set_in_block
from egg_graph.evaluator import load_reference
from egg_graph.evaluator.device.access import MORE_ROOM_FOLLOWS
from egg_graph.evaluator.problem.case import Unevaluable
from egg_graph.evaluator.problem.reference_runner import ReferenceRunner
from egg_graph.evaluator.problem.roundings import FP32_ULP
from egg_graph.schema import BadInput


class Needs(nn.Module):
    """Doubles; in each dtype of `raising` it raises that error instead."""

    def __init__(self, raising: dict[torch.dtype, Exception]) -> None:
        super().__init__()
        self.raising = raising

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if (error := self.raising.get(x.dtype)) is not None:
            raise error
        return x * 2


FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 24.00 GiB")
OTHER = RuntimeError("expected scalar type BFloat16")


def runner(**raising: Exception) -> ReferenceRunner:
    model = Needs({getattr(torch, name): error for name, error in raising.items()})
    return ReferenceRunner(model, [torch.ones(4, dtype=torch.bfloat16)], 1, torch.device("cpu"))


@pytest.mark.parametrize("raising", [{"float64": FULL, "float32": FULL}, {"float64": OTHER, "float32": FULL}])
def test_memory_that_ran_out_for_every_better_answer_is_told_as_that(raising):
    with pytest.raises(torch.OutOfMemoryError, match=r"24\.00 GiB"):
        runner(**raising).exactly([torch.ones(4)])


def test_fp32_stands_in_where_memory_does_not_hold_fp64():
    assert runner(float64=FULL).exactly([torch.ones(4)]).against == "fp32"


def test_fp32_does_not_stand_in_where_others_hold_the_memory():
    with set_in_block(MORE_ROOM_FOLLOWS, lambda: True), pytest.raises(torch.OutOfMemoryError, match=r"24\.00 GiB"):
        runner(float64=FULL).exactly([torch.ones(4)])


def test_what_was_answered_in_fp32_is_answered_so_again_though_memory_holds_fp64_now():
    assert runner().exactly([torch.ones(4)]).against == "fp64"
    assert runner().exactly([torch.ones(4)], "fp32").against == "fp32"


class Spikes(nn.Module):
    """Adds up spikes, which are 0 or 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert bool(((x == 0) | (x == 1)).all())
        return x.sum(0)


def test_inputs_that_the_reference_refuses_are_not_near():
    spikes = ReferenceRunner(Spikes(), [torch.eye(4)], 1, torch.device("cpu"))
    assert list(spikes.nearby(spikes.exactly([torch.ones(4)]), FP32_ULP, 3)) == []
    assert len(list(runner().nearby(runner().exactly([torch.ones(4)]), FP32_ULP, 3))) == 3


def test_a_reference_that_is_tied_to_its_dtype_cannot_be_judged():
    with pytest.raises(Unevaluable, match="declared precision only"):
        runner(float64=OTHER, float32=OTHER).exactly([torch.ones(4)])


CONSTRUCTOR = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        raise torch.AcceleratorError("CUDA error: {}")

    def forward(self, x):
        return x

def get_inputs():
    return [torch.ones(4)]
"""


def test_a_gpu_that_others_filled_is_not_the_fault_of_a_reference():
    with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
        load_reference(CONSTRUCTOR.format("out of memory")).model(0)
    with pytest.raises(BadInput, match="illegal address"):
        load_reference(CONSTRUCTOR.format("illegal address")).model(0)


def test_unsigned_inputs_that_pytorch_cannot_add_are_refused_with_a_cure():
    reference = load_reference(CONSTRUCTOR.replace("torch.ones(4)", "torch.ones(4), torch.ones(4).to(torch.uint32)"))
    with pytest.raises(BadInput, match=r"input 1 of get_inputs\(\) has dtype torch.uint32.*return int64"):
        reference.inputs(0)
