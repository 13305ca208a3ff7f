"""Read a finished run from its folder: evidence.json and history.jsonl."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from egg_graph.schema import (
    Attempt,
    BadInput,
    Baseline,
    CallEntry,
    Candidate,
    Evaluation,
    KernelTask,
    Knob,
    Ledger,
    StageName,
    StageSummary,
    Trial,
    Usage,
)
from egg_graph.schema.ledger import is_ledger_line
from egg_graph.schema.record import check_format


class SavedSweep(BaseModel):
    """What the tuner of one stage tried."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    stage: StageName
    kernel: str = ""
    """`Candidate.id` of the kernel whose knobs were turned."""
    trials: tuple[Trial, ...] = ()
    winner: dict[str, Knob] | None = None
    """The best configuration; None where none was usable."""

    @property
    def timed(self) -> bool:
        """Whether a clock ranked its configurations."""
        return any(trial.milliseconds is not None for trial in self.trials)

    def mark(self, trial: Trial) -> str:
        """What distinguishes a configuration: `best` by a clock, or by its bound; nothing where none was chosen."""
        if trial.config != self.winner:
            return ""
        if self.timed:
            return "best"
        return "" if trial == self.trials[0] else "best by its bound"


class SavedRun(BaseModel):
    """A finished run as its folder holds it. Further keys of evidence.json are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = Field(validation_alias="run")
    status: str
    """Status of the kernel that was handed over, or how the run ended without one."""
    verdict: str
    task: KernelTask
    baseline: Baseline
    best: Candidate | None = None
    evaluation: Evaluation | None = None
    """Evaluation of `best`."""
    summaries: tuple[StageSummary, ...] = ()
    usage: Usage = Usage()
    seconds: float = 0.0
    """Seconds spent inside the nodes."""
    attempts: tuple[Attempt, ...] = ()
    sweeps: tuple[SavedSweep, ...] = ()
    ledger: Ledger | None = None
    """Where time and memory went; None for a run of a version that did not note it."""
    calls: tuple[CallEntry, ...] = ()
    """Calls of the evaluator and of the roles, in the order in which they ended."""


def read_run(folder: str | Path) -> SavedRun:
    """Read a finished run.

    Raises:
        BadInput: if the folder holds no finished run, one of an unknown format, or a damaged file (which, and where).
    """
    folder = Path(folder)
    evidence = _json(folder / "evidence.json", _text(folder / "evidence.json"))
    history = _text(folder / "history.jsonl")
    lines = [
        _json(folder / f"history.jsonl:{number}", line) for number, line in enumerate(history.splitlines(), 1) if line
    ]
    attempts = [line for line in lines if not is_ledger_line(line)]
    calls = [line for line in lines if line.get("line") == "call"]
    try:
        check_format(evidence.get("format", 1))
    except BadInput as error:
        raise BadInput(f"{folder / 'evidence.json'}: {error}") from error
    try:
        return SavedRun.model_validate({**evidence, "attempts": attempts, "calls": calls})
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
