"""Repeat a whole run from what its folder keeps: no key, no GPU, the same end."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egg_graph.model_requests import REQUESTS
from egg_graph.runs.evaluations import ReplayEvaluator
from egg_graph.runs.folder import read_request
from egg_graph.runs.optimize import optimize
from egg_graph.runs.results import Run, make_evidence
from egg_graph.schema import BadInput, Principle
from egg_graph.schema.ledger import is_ledger_line

_COMPARED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "status": lambda end: end["status"],
    "verdict": lambda end: end["verdict"],
    "kernel": lambda end: end["best"] and end["best"]["source"],
    "evaluation": lambda end: end["evaluation"],
    "attempts": lambda end: end["history"],
    "stages": lambda end: [(stage["stage"], stage["outcome"]) for stage in end["summaries"]],
    "cost": lambda end: {name: value for name, value in end["usage"].items() if name != "seconds"},
}
"""What the two ends must have in common."""


@dataclass(frozen=True)
class Replay:
    """What a replay came to."""

    agrees: tuple[str, ...]
    differs: tuple[str, ...]


def replay_run(folder: Path) -> Replay:
    """Run the run of a folder again, with the answers of its models and of its evaluator that the folder keeps.

    Raises:
        BadInput: if there is no such run, it has not ended, or it asks something that the folder does not hold.
    """
    request = read_request(folder)
    then = _read_end(folder)
    evaluator = ReplayEvaluator(folder)
    knobs = {**request["context"], "target": evaluator.task.target.key}
    model = f"replay:{folder}" if (folder / REQUESTS).is_dir() else request["model"]
    if model is False:
        raise BadInput(f"{folder}: its team was an object of its own, which is not kept: only models can be replayed")
    principles = request.get("principles")
    with tempfile.TemporaryDirectory(prefix="egg-graph-replay-") as runs_dir:
        run = optimize(
            request["reference"],
            name=request["name"],
            model=model,
            evaluator=evaluator,
            principles=None if principles is None else [Principle.model_validate(one) for one in principles],
            runs_dir=runs_dir,
            kernel=request.get("kernel") or None,
            plan=request.get("plan") or "",
            **knobs,
        )
    now = {**make_evidence(run), "history": _history(run)}
    same = {name: part(then) == part(now) for name, part in _COMPARED.items()}
    return Replay(
        agrees=tuple(name for name, agrees in same.items() if agrees),
        differs=tuple(name for name, agrees in same.items() if not agrees),
    )


def _history(run: Run) -> list[Any]:
    return [_essence(json.loads(attempt.model_dump_json())) for attempt in run.attempts]


def _read_end(folder: Path) -> dict[str, Any]:
    try:
        end = json.loads((folder / "evidence.json").read_text(encoding="utf-8"))
        lines = (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise BadInput(f"{folder}: that run has not ended: finish it with egg-graph optimize --resume") from error
    attempts = [read for read in map(json.loads, lines) if not is_ledger_line(read)]
    return {**end, "history": [_essence(attempt) for attempt in attempts]}


def _essence(attempt: dict[str, Any]) -> Any:
    """What an attempt was, without how long it took."""
    candidate = attempt["candidate"]
    kept = ("source", "author", "stage", "mode", "plan")
    return {name: candidate[name] for name in kept}, attempt["evaluation"]["status"], attempt["improved"]
