"""An evaluator of your own: a rule of the house in front of the evaluator of this machine.

An evaluator is any object with three methods: `baseline`, `evaluate` and `screen`. This one refuses kernels that use
atomics, whose results differ from run to run, and asks another evaluator about the rest. A kernel that fails is a
value, an `Evaluation` with a finding that tells the debugger what to change; only a fault of the machine raises.

    python examples/own_evaluator.py
"""

import re
from collections.abc import Sequence
from typing import Any

from egg_graph import Baseline, Candidate, Context, Evaluation, Evaluator, KernelTask, Trial, build_egg_graph
from egg_graph.evaluator import report_progress
from egg_graph.schema import Finding, Rung, StageName

REFERENCE = """
import torch
from torch import nn

ROWS = 128
COLUMNS = 500


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""

ATOMIC = re.compile(r"\btl\.atomic_\w+")


class NoAtomics:
    """Refuses atomics, and asks another evaluator about everything else.

    Args:
        other: judges what the rule lets through.
    """

    def __init__(self, other: Evaluator) -> None:
        self.other = other

    def baseline(self, task: KernelTask) -> Baseline:
        return self.other.baseline(task)

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation:
        report_progress("looks for atomics")  # shown by the run while it happens; optional
        if found := ATOMIC.search(candidate.source):
            return refuse(task, candidate, found)
        return self.other.evaluate(task, candidate, stage=stage, finalist=finalist)

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        return self.other.screen(task, candidates)


def refuse(task: KernelTask, candidate: Candidate, found: re.Match[str]) -> Evaluation:
    """The evaluation of a kernel that breaks the rule: what is wrong, where, and what to do instead."""
    line = candidate.source.count("\n", 0, found.start()) + 1
    finding = Finding(
        kind="not_deterministic",
        message=f"{found.group()} makes results differ from run to run",
        where=f"line {line}",
        cure="write partial results to a buffer, and reduce it in a second kernel",
    )
    return Evaluation(
        candidate=candidate.id,
        task=task.digest,
        status="invalid",
        reason=f"{finding.message} ({finding.where})",
        findings=(finding,),
        rungs=(Rung(name="house_rules", outcome="failed", statement=finding.message),),
    )


def run(other: Evaluator, **parts: Any) -> dict[str, Any]:
    """Optimize the reference, judged by the rule and by `other`."""
    graph = build_egg_graph(evaluator=NoAtomics(other), **parts)
    return graph.invoke({"reference": REFERENCE}, context=Context(max_attempts=3, stages=("algorithmic_structure",)))


def main() -> None:
    from egg_graph.evaluator import LocalEvaluator

    with LocalEvaluator() as local:
        print(run(local)["verdict"].splitlines()[0])


if __name__ == "__main__":
    main()
