"""What a run has kept of its evaluations, whether it has ended or not."""

import json
from pathlib import Path

from egg_graph.runs.evaluations import EVALUATIONS
from egg_graph.runs.history import read_lines
from egg_graph.schema import USABLE, CallEntry, Evaluation


def judged_calls(folder: Path) -> list[CallEntry]:
    """The evaluations that were answered, in order; finalists are none."""
    return [line for line in read_lines(folder) if isinstance(line, CallEntry) and _is_judged(line)]


def _is_judged(call: CallEntry) -> bool:
    return call.call == "evaluation" and call.status not in ("pending", "failed")


def first_evaluation(folder: Path, calls: list[CallEntry]) -> Evaluation | None:
    """The first evaluation of these calls that was answered."""
    done = [call for call in calls if _is_judged(call)]
    return next((found for call in done if (found := kept_evaluation(folder, call.candidate)) is not None), None)


def kept_evaluation(folder: Path, candidate: str) -> Evaluation | None:
    """The evaluation of a candidate that was no finalist's; None where none is kept."""
    for path in sorted((folder / EVALUATIONS).glob(f"{candidate}-*.json")):
        kept = json.loads(path.read_text(encoding="utf-8"))
        if not kept["finalist"]:
            return Evaluation.model_validate(kept["answer"])
    return None


def highest_ratio(folder: Path | None) -> float | None:
    """The highest ratio of a right kernel that a run has judged; None where it has none, or there is no run."""
    if folder is None:
        return None
    found = [kept_evaluation(folder, call.candidate) for call in judged_calls(folder) if call.status in USABLE]
    return max((one.timing.ratio for one in found if one is not None and one.timing is not None), default=None)
