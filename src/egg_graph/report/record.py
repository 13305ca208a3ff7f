"""A run as its folder keeps it: evidence.json and history.jsonl, read back into the vocabulary."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from egg_graph.schema import Attempt, BadInput, Baseline, Candidate, Evaluation, KernelTask, StageSummary, Usage


class Record(BaseModel):
    """What a run's folder says about it. Keys of evidence.json that a newer version added are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = Field(validation_alias="run")
    status: str
    """Status of the kernel handed over, or how the run ended without one."""
    verdict: str
    task: KernelTask
    baseline: Baseline
    best: Candidate | None = None
    evaluation: Evaluation | None = None
    """Of `best`."""
    summaries: tuple[StageSummary, ...] = ()
    usage: Usage = Usage()
    seconds: float = 0.0
    attempts: tuple[Attempt, ...] = ()


def read_record(folder: str | Path) -> Record:
    """Read a finished run.

    Raises:
        BadInput: if the folder holds no finished run, or a file in it is damaged (which, and where).
    """
    folder = Path(folder)
    evidence = _json(folder / "evidence.json", _text(folder / "evidence.json"))
    history = _text(folder / "history.jsonl")
    attempts = [
        _json(folder / f"history.jsonl:{number}", line) for number, line in enumerate(history.splitlines(), 1) if line
    ]
    try:
        return Record.model_validate({**evidence, "attempts": attempts})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"{folder}: does not hold a run of this version: {key}: {first['msg']}") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        known = "is no run's folder" if not path.parent.is_dir() else "holds no finished run"
        raise BadInput(f"{path.parent}: {known} (no {path.name}); name a folder such as runs/<id>") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read: {error}") from error


def _json(where: Path, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"{where}: damaged: {error.msg} at column {error.colno}") from error
    if not isinstance(value, dict):
        raise BadInput(f"{where}: damaged: not a JSON object")
    return value
