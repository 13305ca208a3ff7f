"""What a finished run leaves: a value for the caller, and files in the run's folder."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egg_graph.runs.evidence import make_record
from egg_graph.runs.files import write_whole
from egg_graph.schema import Attempt, Evaluation, StageSummary, Usage, Value
from egg_graph.state import OutputState, RunStatus


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run."""

    id: str
    folder: Path
    status: RunStatus
    verdict: str
    """What was proven and what was not, for a person."""
    kernel: str | None
    """Source of the kernel, None where the reference is kept."""
    kernel_path: Path | None
    evaluation: Evaluation | None
    attempts: tuple[Attempt, ...]
    summaries: tuple[StageSummary, ...]
    usage: Usage
    seconds: float
    state: OutputState
    """Everything, as the graph left it."""

    @property
    def accepted(self) -> bool:
        """True where the run hands over a kernel."""
        return self.kernel is not None


def finished(folder: Path, state: OutputState) -> Run:
    """The run of this folder, from the state that the graph left."""
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
    )


def write_results(run: Run) -> None:
    """Write kernel.py (where there is one), evidence.json, history.jsonl and report.html, each whole or not at all."""
    if run.kernel is not None and run.kernel_path is not None:
        write_whole(run.kernel_path, run.kernel)
    write_whole(run.folder / "evidence.json", json.dumps(evidence(run), indent=2) + "\n")
    write_whole(run.folder / "history.jsonl", "".join(attempt.model_dump_json() + "\n" for attempt in run.attempts))
    from egg_graph.report import write_report

    write_report(run.folder)


def evidence(run: Run) -> dict[str, Any]:
    """All that a run established, as JSON values: what `evidence.json` holds. `record` is signed, and replay repeats
    it."""

    def dump(value: Value | None) -> Any:
        return None if value is None else json.loads(value.model_dump_json())  # infinities as text: JSON has none

    state, best = run.state, run.state.get("best")
    record = None
    if best is not None and run.evaluation is not None:
        record = make_record(state["task"], best, run.evaluation, finalist=True)  # `conclude` judges it as one
    return {
        "run": run.id,
        "status": run.status,
        "verdict": run.verdict,
        "task": dump(state["task"]),
        "baseline": dump(state["baseline"]),
        "best": dump(best),
        "evaluation": dump(run.evaluation),
        "proven": [] if run.evaluation is None else list(run.evaluation.proven),
        "not_proven": [] if run.evaluation is None else list(run.evaluation.not_proven),
        "summaries": [dump(summary) for summary in run.summaries],
        "attempts": len(run.attempts),
        "usage": dump(run.usage),
        "seconds": run.seconds,
        "record": None if record is None else record.data(),
    }
