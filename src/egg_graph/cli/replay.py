"""`egg-graph replay`: verify an evidence record, and repeat its evaluation."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from egg_graph.cli.console import REJECTED, plain, stdout
from egg_graph.schema import BadInput, Environment, Evaluation, EvidenceRecord, InfrastructureError

Place = Literal["recorded", "gpu", "none"]


def replay(
    evidence: Annotated[
        Path,
        typer.Argument(help="A record of evaluate --evidence, the evidence.json of a run, or the folder of a run."),
    ],
    device: Annotated[Place, typer.Option(help="Where to repeat it: as recorded, on a GPU, or without.")] = "recorded",
    as_json: Annotated[bool, typer.Option("--json", help="End with one line of JSON: what agrees, what not.")] = False,
) -> None:
    """Verify an evidence record, and repeat its evaluation on the same seeds.

    Correctness has to come out bit for bit; times are taken anew where there is a GPU. On another GPU, or with other
    versions of torch or triton, bitwise equality is not promised: differences are told with what may explain them.

    Of the evidence.json of a run, the signed record is verified, and that the task, kernel and evaluation beside it are
    the same; what else stands there (verdict in words, attempts, costs) is not signed.

    The folder of a run is run again as a whole, from the answers of models and evaluator that it keeps: with no key and
    no GPU, to the same end.

    Exit status 0 if the replay agrees, 1 if it differs, 2 if the record is damaged or tampered with, 3 if the machine
    failed.
    """
    from egg_graph.evaluator.replay import compare_replay
    from egg_graph.runs.evidence import read_evidence

    if not evidence.exists():
        raise BadInput(f"{evidence}: no such file or folder; name a record, or a run's folder such as runs/<id>")
    if evidence.is_dir():
        _replay_run(evidence, as_json)
        return
    record = read_evidence(evidence)
    repeated = _repeat(record, device)
    comparison = compare_replay(record.evaluation, repeated)
    lines = {
        "agrees": comparison.agrees,
        "differs": comparison.differs,
        "not_repeated": comparison.not_repeated,
        "other_machine": comparison.why,
    }
    if as_json:
        result: dict[str, Any] = {"same": comparison.same, "signed_with": record.signed_with, **lines}
        typer.echo(json.dumps({**result, "evaluation": json.loads(repeated.model_dump_json())}))
    else:
        _show(record, lines)
    if not comparison.same:
        raise typer.Exit(REJECTED)


def _replay_run(folder: Path, as_json: bool) -> None:
    """Run a whole run again, and tell whether it ends as it did."""
    from egg_graph.runs.replay import replay_run

    if runs := sorted(path.parent for path in folder.glob("*/run.json")):
        raise BadInput(f"{folder}: holds {len(runs)} runs; name one of them, such as {runs[-1]}")
    replayed = replay_run(folder)
    lines = {"agrees": replayed.agrees, "differs": replayed.differs}
    if as_json:
        typer.echo(json.dumps({"same": not replayed.differs, **lines}))
    else:
        _show_lines(lines)
        stdout().print("[red]it ends otherwise[/]" if replayed.differs else "[green]it ends as it did[/]")
    if replayed.differs:
        raise typer.Exit(REJECTED)


def _repeat(record: EvidenceRecord, device: Place) -> Evaluation:
    """Repeat the evaluation of a record.

    Raises:
        BadInput: if there is nothing to repeat.
        InfrastructureError: if this machine cannot repeat it.
    """
    from egg_graph.evaluator import LocalEvaluator, gpu_present

    if record.seed is None:
        raise BadInput("the record holds no seed: whoever judged it did not tell one, so nothing can be repeated")
    if record.evaluation.status == "infra_error":
        raise BadInput(f"the record blames the machine, not the kernel: {record.evaluation.reason}")
    where = record.settings.device if device == "recorded" else device
    if where == "gpu" and not gpu_present():
        if record.settings.device != "gpu":
            raise BadInput("--device gpu: there is no GPU here, nor was there one where it was recorded; leave it out")
        name = (record.evaluation.environment or Environment(machine="")).gpu
        raise InfrastructureError(
            f"it was recorded on {name or 'a GPU'}, and there is no GPU here; --device none repeats what needs none"
        )
    with LocalEvaluator(device=where, timeout=record.settings.timeout, seed=record.seed) as evaluator:
        repeated = evaluator.evaluate(
            record.task, record.candidate, stage=record.candidate.stage, finalist=record.settings.finalist
        )
    if repeated.status == "infra_error":
        raise InfrastructureError(repeated.reason)
    return repeated


def _show(record: EvidenceRecord, lines: dict[str, tuple[str, ...]]) -> None:
    console = stdout()
    signed = "signed under your key" if record.signed_with == "hmac-sha256" else "not signed, its checksum is right"
    console.print(
        f"record of {plain(record.created)}: {plain(record.candidate.id)} for {plain(record.task.name)}, "
        f"{record.evaluation.status}; {signed} ({record.signed_with})",
        soft_wrap=True,
    )
    _show_lines({name: lines[name] for name in ("agrees", "differs", "not_repeated")})
    if lines["other_machine"]:
        console.print("  bitwise equality is not promised here, for this is not the machine of the record:")
        for line in lines["other_machine"]:
            console.print(f"    {plain(line)}", soft_wrap=True)
    verified = "; of the file its record was verified and repeated, nothing else"
    console.print(("[red]it differs[/]" if lines["differs"] else "[green]it agrees[/]") + verified)


def _show_lines(lines: dict[str, tuple[str, ...]]) -> None:
    console = stdout()
    for name, mark, color in (("agrees", "=", "green"), ("differs", "!", "red"), ("not_repeated", "-", "yellow")):
        for line in lines.get(name, ()):
            console.print(f"  [{color}]{mark}[/] {name.replace('_', ' ')}: {plain(line)}", soft_wrap=True)
