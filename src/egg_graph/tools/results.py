"""What an agent is told at the end: a page, where the state of a run is a book."""

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from egg_graph.schema import Evaluation


class RunResult(TypedDict):
    """The end of a run."""

    status: str
    """`faster`, `inconclusive`, `slower` or `correct` (not timed) of the kernel; `reference_kept` or `unevaluable`."""
    verdict: str
    """What was proven and what was not."""
    kernel: str
    """Source of the kernel; empty where the reference is kept."""
    ratio: float | None
    """The baseline's time over the kernel's; None where no GPU timed them."""
    evidence: str
    """Folder with kernel.py, evidence.json, history.jsonl and report.html; empty where nothing was written."""


class KernelResult(TypedDict):
    """The verdict on one kernel."""

    status: str
    reason: str
    usable: bool
    """Whether the answers are right, so that the kernel may replace the reference."""
    ratio: float | None
    """The baseline's time over the kernel's; None where no GPU timed them."""
    proven: list[str]
    not_proven: list[str]
    not_preserved: list[str]
    """What the module keeps beyond the task's domain and the kernel does not."""
    findings: list[str]
    """What is wrong, where, and the cure."""
    evidence: str
    """File of the record that `egg-graph replay` repeats; empty where none was written."""


def ratio_of(evaluation: Evaluation | None) -> float | None:
    """The baseline's time over the kernel's; None where no GPU timed them."""
    return None if evaluation is None or evaluation.timing is None else evaluation.timing.ratio


def run_result(state: Mapping[str, Any], evidence: str = "") -> RunResult:
    """Tell the end of a run from its final state."""
    return RunResult(
        status=state["status"],
        verdict=state["verdict"],
        kernel=state["kernel"],
        ratio=ratio_of(state.get("evaluation")),
        evidence=evidence,
    )


def kernel_result(evaluation: Evaluation, evidence: str = "") -> KernelResult:
    """Tell the verdict on one kernel."""
    return KernelResult(
        status=evaluation.status,
        reason=evaluation.reason,
        usable=evaluation.usable,
        ratio=ratio_of(evaluation),
        proven=list(evaluation.proven),
        not_proven=list(evaluation.not_proven),
        not_preserved=list(evaluation.not_preserved),
        findings=[
            ": ".join(filter(None, (finding.kind, finding.message, finding.where, finding.cure)))
            for finding in evaluation.findings
        ],
        evidence=evidence,
    )
