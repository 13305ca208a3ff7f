"""An evaluator that meets one task after another does not keep all of them."""

from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.problem.task_cache import TaskCache
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
    problems: TaskCache[Problem] = TaskCache(0.0, forgotten.append)

    def problem(task: KernelTask) -> Problem:
        return problems.get_or_make(task.digest, lambda: Problem(task, 1))

    first = problem(one)
    assert first.nbytes == 0
    assert problem(two) is not first
    assert problem(one) is first, "nothing is forgotten while nothing is held"
    first.cases("shrunk")
    assert first.nbytes >= 2 * 64 * 96 * 4
    problems.limit_bytes = first.nbytes - 1
    kept = problem(three)
    assert forgotten == [two.digest, one.digest], "the one not met for longest goes first, until the rest holds little"
    assert problem(three) is kept
    assert problem(one) is not first
    problems.limit_bytes, problems.memory_is_short = 1e12, lambda: True
    assert problems.get_or_make(two.digest, lambda: Problem(two, 1)).nbytes == 0
    assert forgotten[2:] == [three.digest, one.digest], "where memory is short, whoever has it, a new one stands alone"
    problems.clear()
    assert problem(four).nbytes == 0
    assert problem(three) is not kept
