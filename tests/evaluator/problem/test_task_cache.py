"""An evaluator that meets one task after another does not keep all of them."""

from egg_graph.evaluator.kept import Kept
from egg_graph.evaluator.problem.docket import Docket
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
    dockets: Kept[Docket] = Kept(0.0, forgotten.append)

    def docket(task: KernelTask) -> Docket:
        return dockets.of(task.digest, lambda: Docket(task, 1))

    first = docket(one)
    assert first.nbytes == 0
    assert docket(two) is not first
    assert docket(one) is first, "nothing is forgotten while nothing is held"
    first.cases("shrunk")
    assert first.nbytes >= 2 * 64 * 96 * 4
    dockets.most_bytes = first.nbytes - 1
    kept = docket(three)
    assert forgotten == [two.digest, one.digest], "the one not met for longest goes first, until the rest holds little"
    assert docket(three) is kept
    assert docket(one) is not first
    dockets.most_bytes, dockets.cramped = 1e12, lambda: True
    assert dockets.of(two.digest, lambda: Docket(two, 1)).nbytes == 0
    assert forgotten[2:] == [three.digest, one.digest], "where memory is short, whoever has it, a new one stands alone"
    dockets.clear()
    assert docket(four).nbytes == 0
    assert docket(three) is not kept
