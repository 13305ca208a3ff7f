"""`egg-graph evaluate`: may this candidate replace this reference? Needs neither a model nor LangGraph."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from egg_graph.cli.console import REJECTED, plain, stdout
from egg_graph.cli.files import read_candidate, read_task
from egg_graph.cli.options import DEVICE, DOMAIN, PRECISION
from egg_graph.cli.verdict import show_verdict
from egg_graph.context import Device, check_device
from egg_graph.schema import Candidate, Domain, EggError, Evaluation, InfrastructureError, KernelTask, Precision


def evaluate(
    reference: Annotated[Path, typer.Argument(help="PyTorch reference: Model, get_inputs, get_init_inputs.")],
    candidate: Annotated[Path, typer.Argument(help="Candidate: Triton kernels and class ModelNew.")],
    as_json: Annotated[bool, typer.Option("--json", help="End with one line of JSON: the evidence.")] = False,
    target: Annotated[str, typer.Option(help="GPU to compile for; auto takes this machine's own.")] = "auto",
    precision: Annotated[Precision, PRECISION] = "tf32",
    domain: Annotated[Domain, DOMAIN] = "finite",
    device: Annotated[Device, DEVICE] = "auto",
    triton_only: Annotated[bool, typer.Option("--triton-only", help="Forbid library calls beside Triton.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds that one run of the candidate may take.")] = 60.0,
    profile: Annotated[bool, typer.Option("--profile", help="Collect Nsight Compute metrics as well.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out what a finalist has to pass: sanitizer, second measurement.")
    ] = False,
    evidence_file: Annotated[
        Path | None, typer.Option("--evidence", help="Write a record of the verdict that egg-graph replay can repeat.")
    ] = None,
    knowledge: Annotated[str | None, typer.Option(help="Folder with hardware_*.toml files of your own.")] = None,
) -> None:
    """Judge one candidate against one reference, and say what was proven.

    Exit status 0 if the candidate may replace the reference, 1 if it is rejected, 2 for bad usage or a bad reference,
    3 if the machine failed.
    The kernel is judged as a finalist, with everything there is time for; --quick leaves the slow rungs out.
    What the judge does is told on standard error. With --json the last line of standard output is one JSON object:
    status, reason, usable, proven, not_proven, not_preserved, and the whole evaluation; where there is none, status is
    bad_input or infra_error.
    """
    try:
        check_device(device)
        options: dict[str, Any] = {"domain": domain, "target": target, "triton_only": triton_only}
        task = read_task(reference, precision, knowledge=knowledge, **options)
        kernel = read_candidate(candidate)
        evaluation = _judge(task, kernel, finalist=not quick, device=device, timeout=timeout, profile=profile)
    except EggError as error:
        if as_json:
            typer.echo(json.dumps({"status": _status(error), "reason": str(error), "usable": False}))
        raise
    if evidence_file is not None:
        from egg_graph.runs.evidence import make_record, write_record

        write_record(evidence_file, make_record(task, kernel, evaluation, timeout=timeout, finalist=not quick))
    if as_json:
        typer.echo(json.dumps(evidence(evaluation)))
    else:
        show_verdict(stdout(), evaluation, title=f"{candidate.name} for {reference.name}, target {task.target.name}")
        if evidence_file is not None:
            stdout().print(f"record    {plain(evidence_file)}", soft_wrap=True)
    if not evaluation.usable:
        raise typer.Exit(REJECTED)


def _status(error: EggError) -> str:
    """The status of what ended without an evaluation."""
    return "infra_error" if isinstance(error, InfrastructureError) else "bad_input"


def _judge(task: KernelTask, candidate: Candidate, *, finalist: bool, **settings: Any) -> Evaluation:
    from egg_graph.cli.judging_progress import JudgingProgress
    from egg_graph.evaluator import LocalEvaluator

    with JudgingProgress(), LocalEvaluator(**settings) as evaluator:
        evaluator.baseline(task)  # a reference that does not run is bad input, and told before any verdict
        return evaluator.evaluate(task, candidate, finalist=finalist)


def evidence(evaluation: Evaluation) -> dict[str, Any]:
    """An evaluation as JSON data: `status` and `reason` first, then what was proven and what was not."""
    return {
        "status": evaluation.status,
        "reason": evaluation.reason,
        "usable": evaluation.usable,
        "proven": evaluation.proven,
        "not_proven": evaluation.not_proven,
        "not_preserved": evaluation.not_preserved,
        **json.loads(evaluation.model_dump_json()),
    }
