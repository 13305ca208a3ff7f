"""One verdict on one kernel, with its record on disk."""

from pathlib import Path

from egg_graph.calls import Call
from egg_graph.context import Context, check_device
from egg_graph.evaluator.protocol import Evaluator
from egg_graph.nodes.prepare import make_task, read_text
from egg_graph.nodes.roles import USER
from egg_graph.nodes.services import Services
from egg_graph.runs.evidence import make_record, write_record
from egg_graph.schema import BadInput, Candidate, Evaluation, InfrastructureError, KernelTask
from egg_graph.tools.results import KernelResult, kernel_result

JUDGE_KNOBS = ("target", "precision", "domain", "device", "triton_only")
"""Knobs of `Context` that matter to a verdict."""


def read_kernel(kernel: object) -> Candidate:
    """Make a candidate of a kernel that a user hands in.

    Args:
        kernel: source text, or the path of a .py file.

    Raises:
        BadInput: if it is missing or cannot be read.
    """
    if not isinstance(kernel, str) or not kernel.strip():
        raise BadInput("input 'kernel' is missing or empty: pass a kernel's source text or the path of a .py file")
    return Candidate(source=read_text(kernel, "kernel"), author=USER, stage="algorithmic_structure", mode="seed")


def judge_finalist(evaluator: Evaluator, task: KernelTask, candidate: Candidate) -> Evaluation:
    """Judge a kernel on the whole ladder.

    Raises:
        InfrastructureError: if the machine failed.
    """
    evaluation: Evaluation = Call(evaluator.evaluate, task, candidate, finalist=True).make()
    if evaluation.status == "infra_error":
        raise InfrastructureError(f"evaluating the kernel {candidate.id}: {evaluation.reason}")
    return evaluation


def judge_kernel(
    reference: str, kernel: str, context: Context, *, evaluator: Evaluator | None = None, runs_dir: Path
) -> KernelResult:
    """Judge a kernel, and write the record of the verdict.

    Args:
        reference, kernel: source text, or the path of a .py file.
        context: the knobs; those of `JUDGE_KNOBS` matter.
        evaluator: None for the evaluator of this machine.
        runs_dir: the folder into which the record is written.

    Raises:
        BadInput: if the reference, the kernel or a knob is wrong, or the record cannot be written.
        InfrastructureError: if the machine failed.
    """
    task, candidate = make_task(reference, None, context), read_kernel(kernel)
    if evaluator is None:
        check_device(context.device)
    judge = Services(evaluator=evaluator).get_evaluator(context)
    Call(judge.baseline, task).make()  # a reference that does not run is bad input, and told before any verdict
    evaluation = judge_finalist(judge, task, candidate)
    path = runs_dir / f"evaluation-{task.digest}-{candidate.id}.json"
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot make the folder {runs_dir}: {error.strerror}; name another one") from error
    write_record(path, make_record(task, candidate, evaluation, finalist=True))
    return kernel_result(evaluation, str(path.resolve()))
