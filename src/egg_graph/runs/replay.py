"""Repeat a whole run from what its folder keeps: no key, no GPU, the same end."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egg_graph.model_requests import REQUESTS, read_requests
from egg_graph.runs.evaluations import ReplayEvaluator
from egg_graph.runs.folder import read_request
from egg_graph.runs.optimize import optimize
from egg_graph.schema import Attempt, BadInput, Principle

if TYPE_CHECKING:
    from egg_graph.report import SavedRun

_COMPARED: dict[str, Callable[["SavedRun"], Any]] = {
    "status": lambda end: end.status,
    "verdict": lambda end: end.verdict,
    "kernel": lambda end: end.best and end.best.source,
    "evaluation": lambda end: end.evaluation and end.evaluation.model_dump_json(),  # as text: no NaN equals another
    "attempts": lambda end: [_essence(attempt) for attempt in end.attempts],
    "stages": lambda end: [(stage.stage, stage.outcome) for stage in end.summaries],
    "cost": lambda end: end.usage.model_dump(exclude={"seconds"}),
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
    from egg_graph.report import read_run

    request = read_request(folder)
    if not (folder / "evidence.json").is_file():
        raise BadInput(f"{folder}: that run has not ended: finish it with egg-graph optimize --resume")
    then = read_run(folder)
    evaluator = ReplayEvaluator(folder)
    knobs = {**request["context"], "target": evaluator.task.target.key}
    model = _replayed(folder, request["model"]) if (folder / REQUESTS).is_dir() else request["model"]
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
        now = read_run(run.folder)
    same = {name: part(then) == part(now) for name, part in _COMPARED.items()}
    return Replay(
        agrees=tuple(name for name, agrees in same.items() if agrees),
        differs=tuple(name for name, agrees in same.items() if not agrees),
    )


def _replayed(folder: Path, model: Any) -> Any:
    """The models that give the answers of a run again: as many coders as it had, each by its own name."""
    coders = model["coder"] if isinstance(model, dict) else model
    if not isinstance(coders, list):
        return f"replay:{folder}"
    from egg_graph.agents.replay import ReplayModel

    requests, others = read_requests(folder), f"replay:{folder}"
    written = [one for one in requests if one.role == "coder"]
    dealt = []
    for turn in range(len(coders)):
        name = next((one.model for one in written if one.draft and (one.draft - 1) % len(coders) == turn), None)
        dealt.append(ReplayModel(requests=[one for one in written if one.model == name] or requests))
    return {"analyst": others, "debugger": others, "coder": dealt}


def _essence(attempt: Attempt) -> tuple[Any, ...]:
    """What an attempt was, without how long it took."""
    candidate = attempt.candidate
    kept = (candidate.source, candidate.author, candidate.stage, candidate.mode, candidate.plan)
    return *kept, attempt.evaluation.status, attempt.improved
