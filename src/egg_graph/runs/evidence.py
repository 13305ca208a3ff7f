"""Evidence records as files: made with a verdict, read back to be verified and repeated."""

import datetime
import json
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from egg_graph.runs.files import write_whole
from egg_graph.schema import BadInput, Candidate, Evaluation, EvaluatorSettings, EvidenceRecord, KernelTask
from egg_graph.schema.record import KEY_VARIABLE, check_format

DEFAULT_TIMEOUT = 60.0
"""Seconds that one run of a candidate may take: the default of `LocalEvaluator`."""


def make_record(
    task: KernelTask, candidate: Candidate, evaluation: Evaluation, *, timeout: float = DEFAULT_TIMEOUT, finalist: bool
) -> EvidenceRecord:
    """Make the record of one verdict, signed with the key in `EGG_GRAPH_EVIDENCE_KEY` where that is set.

    Args:
        timeout: seconds that one run of the candidate could take.
        finalist: whether the candidate was evaluated as a finalist.
    """
    on_gpu = evaluation.environment is not None and evaluation.environment.gpu is not None
    return EvidenceRecord.make(
        task,
        candidate,
        evaluation,
        EvaluatorSettings(device="gpu" if on_gpu else "none", timeout=timeout, finalist=finalist),
        egg_graph=_version(),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        key=os.environ.get(KEY_VARIABLE, ""),
    )


def write_record(path: Path, record: EvidenceRecord) -> None:
    """Write a record in one step.

    Raises:
        BadInput: if the file cannot be written.
    """
    try:
        write_whole(path, json.dumps(record.data(), indent=2) + "\n")
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from error


def read_evidence(path: Path) -> EvidenceRecord:
    """Read and verify a record: a file that `evaluate --evidence` wrote, or the evidence.json of a run.

    Of an evidence.json the record is verified, and that task, kernel and evaluation beside it are the record's.

    Raises:
        BadInput: if the file cannot be read, holds no record, has an unknown format, or was tampered with.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except json.JSONDecodeError as error:
        raise BadInput(f"{path}: no record, or a damaged one: line {error.lineno} is not JSON") from error
    try:
        if isinstance(data, dict) and "record" in data:
            check_format(data.get("format", 1))
            evidence, data = data, data["record"]
            if data is None:
                raise BadInput("that run ended without a kernel: there is no verdict to repeat")
            _check_unsigned_copy(evidence, data)
        return EvidenceRecord.read(data, key=os.environ.get(KEY_VARIABLE, ""))
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error


_ALSO_OUTSIDE = {"task": "task", "best": "candidate", "evaluation": "evaluation"}
"""Keys of evidence.json that say what a field of the signed record says, and which."""


def _check_unsigned_copy(evidence: dict[str, Any], record: dict[str, Any]) -> None:
    """Refuse an evidence.json that tells something else than its signed record.

    Raises:
        BadInput: if task, kernel or evaluation differ from those of the record.
    """
    if not isinstance(record, dict):
        return
    for outer, inner in _ALSO_OUTSIDE.items():
        if outer in evidence and evidence[outer] != record.get(inner):
            raise BadInput(f"tampered with: its {outer!r} is not the one of the record (`record.{inner}`)")


def _version() -> str:
    try:
        return version("egg-graph")
    except PackageNotFoundError:
        return "unknown"
