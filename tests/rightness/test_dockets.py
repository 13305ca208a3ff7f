"""An evaluator that meets one task after another does not keep all of them."""

from egg_graph.evaluator.problem.docket import Docket
from egg_graph.evaluator.problem.dockets import Dockets
from egg_graph.schema import Hardware, KernelTask

REFERENCE = """
import torch
from torch import nn

ROWS, COLUMNS = 64, 96


class Model(nn.Module):
    def forward(self, x):
        return x * {factor}


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""


def tasks(h200: Hardware, count: int) -> list[KernelTask]:
    return [
        KernelTask(name="scaled", reference=REFERENCE.format(factor=factor), target=h200)
        for factor in range(2, 2 + count)
    ]


def test_the_tasks_met_last_are_kept_as_far_as_memory_goes(h200: Hardware) -> None:
    forgotten: list[str] = []
    one, two, three, four = tasks(h200, 4)
    dockets = Dockets(lambda task: Docket(task, 1), 0.0, forgotten.append)
    first = dockets.of(one)
    assert first.nbytes == 0
    assert dockets.of(two) is not first
    assert dockets.of(one) is first, "nothing is forgotten while nothing is held"
    first.cases("shrunk")
    assert first.nbytes >= 2 * 64 * 96 * 4
    dockets.most_bytes = first.nbytes - 1
    kept = dockets.of(three)
    assert forgotten == [two.digest, one.digest], "the one not met for longest goes first, until the rest holds little"
    assert dockets.of(three) is kept
    assert dockets.of(one) is not first
    dockets.clear()
    assert dockets.of(four).nbytes == 0
    assert dockets.of(three) is not kept
