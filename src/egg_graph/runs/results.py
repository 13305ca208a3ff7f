"""What a finished run leaves: a value for the caller, and files in the run's folder."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egg_graph.runs.evidence import make_record
from egg_graph.runs.files import RESUME, cannot_write, indented, write_whole
from egg_graph.runs.history import write_history
from egg_graph.schema import Attempt, BadInput, Evaluation, Ledger, StageSummary, Usage, Value
from egg_graph.schema.record import FORMAT
from egg_graph.state import OutputState, RunStatus


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run."""

    id: str
    folder: Path
    status: RunStatus
    verdict: str
    """Text for a person: what was proven and what was not."""
    kernel: str | None
    """Source of the kernel; None where the reference is kept."""
    kernel_path: Path | None
    """File of the kernel; None where the reference is kept."""
    evaluation: Evaluation | None
    attempts: tuple[Attempt, ...]
    summaries: tuple[StageSummary, ...]
    usage: Usage
    seconds: float
    """Seconds spent inside the nodes."""
    state: OutputState
    """The whole state, as the graph left it."""
    ledger: Ledger | None = None
    """Where the wall time and the GPU memory went; None for a run of a version that did not note it."""

    @property
    def accepted(self) -> bool:
        """True where the run hands over a kernel."""
        return self.kernel is not None


def make_run(folder: Path, state: OutputState, ledger: Ledger | None = None) -> Run:
    """Make the run of a folder from the state that the graph left, and its calls added up."""
    kernel = state["kernel"] or None
    return Run(
        id=folder.name,
        folder=folder,
        status=state["status"],
        verdict=state["verdict"],
        kernel=kernel,
        kernel_path=None if kernel is None else folder / "kernel.py",
        evaluation=state.get("evaluation"),
        attempts=tuple(state.get("attempts", [])),
        summaries=tuple(state.get("summaries", [])),
        usage=state["usage"],
        seconds=state["seconds"],
        state=state,
        ledger=ledger,
    )


def write_results(run: Run) -> None:
    """Write kernel.py (where there is a kernel), evidence.json, history.jsonl and report.html, each in one step.

    Raises:
        InfrastructureError: if a file cannot be written.
    """
    from egg_graph.report import read_run, render

    try:
        if run.kernel is not None and run.kernel_path is not None:
            write_whole(run.kernel_path, run.kernel)
        write_whole(run.folder / "evidence.json", indented(make_evidence(run), 2))
        write_history(run.folder, run.attempts)
        write_whole(run.folder / "report.html", render(read_run(run.folder)))
    except OSError as error:
        raise cannot_write(run.folder, error, RESUME) from error


def write_report(folder: str | Path, *, out: str | Path | None = None) -> Path:
    """Write the page of a finished run.

    Args:
        folder: the run's folder, with evidence.json and history.jsonl.
        out: file of the page; by default `report.html` in the folder.

    Returns:
        The page's path.

    Raises:
        BadInput: if the folder holds no finished run, or the page cannot be written.
    """
    from egg_graph.report import read_run, render

    page = render(read_run(folder))
    path = Path(folder) / "report.html" if out is None else Path(out)
    try:
        write_whole(path, page)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from error
    return path


def make_evidence(run: Run) -> dict[str, Any]:
    """The content of evidence.json: all that a run established, as JSON values.

    `format` is the version of evidence.json and of history.jsonl beside it. `record` is signed, and `egg-graph replay`
    repeats it.
    """

    def dump(value: Value | None) -> Any:
        return None if value is None else json.loads(value.model_dump_json())  # infinities as text: JSON has none

    state, best = run.state, run.state.get("best")
    record = None
    if best is not None and run.evaluation is not None:
        record = make_record(state["task"], best, run.evaluation, finalist=True)  # `conclude` judges it as one
    return {
        "format": FORMAT,
        "run": run.id,
        "status": run.status,
        "verdict": run.verdict,
        "task": dump(state["task"]),
        "baseline": dump(state["baseline"]),
        "best": dump(best),
        "evaluation": dump(run.evaluation),
        "proven": [] if run.evaluation is None else list(run.evaluation.proven),
        "not_proven": [] if run.evaluation is None else list(run.evaluation.not_proven),
        "not_preserved": [] if run.evaluation is None else list(run.evaluation.not_preserved),
        "summaries": [dump(summary) for summary in run.summaries],
        "sweeps": [dump(sweep) for sweep in state.get("sweeps", [])],
        "lessons": [dump(lesson) for lesson in state.get("lessons", [])],
        "attempts": len(run.attempts),
        "usage": dump(run.usage),
        "seconds": run.seconds,
        "ledger": dump(run.ledger),
        "record": None if record is None else record.data(),
    }
