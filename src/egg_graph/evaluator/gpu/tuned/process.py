"""The process that runs the reference with switches turned: `python -m egg_graph.evaluator.gpu.tuned.process`.

A task's JSON comes on the first line of standard input, and a trial's on each further one; each trial is answered by
one line. It draws a seed of its own, and runs no candidate. What its owner kills, or what breaks the GPU's context,
ends with it and touches no other measurement.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from typing import IO

import torch

from egg_graph.evaluator.gpu.tuned.switched_forwards import SwitchedForwards
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.sandbox import confine
from egg_graph.schema import KernelTask, TunedTrial

Measure = Callable[[TunedTrial], TunedTrial]


def serve(questions: IO[str], answers: IO[str], make: Callable[[KernelTask], Measure]) -> None:
    """Measure trial after trial until there are no more."""
    measure = make(KernelTask.model_validate_json(questions.readline()))
    for line in questions:
        answers.write(measure(TunedTrial.model_validate_json(line)).model_dump_json() + "\n")
        answers.flush()


def make_measure(task: KernelTask) -> Measure:
    """What measures a trial of this task on the GPU."""
    torch.set_num_threads(1)
    return SwitchedForwards(Problem(task, secrets.randbits(62), torch.device("cuda"))).measure


def main() -> None:
    """Serve the judge that started this process, and die with it; what a reference prints goes to standard error."""
    confine.die_with_parent()
    confine.hide_memory()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        serve(sys.stdin, answers, make_measure)


if __name__ == "__main__":
    main()
