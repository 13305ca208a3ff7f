"""Recordings of runs with models: what a replay needs of a run's folder, in one file each.

A reference that is not ours is left out of its recording, wherever the run quotes it; who has it puts it back.
"""

import gzip
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from egg_graph import optimize
from egg_graph.agents.replay import ReplayModel
from egg_graph.model_requests import REQUESTS, read_requests
from egg_graph.runs.evaluations import EVALUATIONS, ReplayEvaluator
from egg_graph.runs.folder import read_request
from egg_graph.runs.replay import replay_run
from egg_graph.schema import BadInput, ModelRequest
from tests.lab.model_runs import ModelRuns

CHECKOUT = Path(__file__).parents[2]
KEPT = ("run.json", "evidence.json", "history.jsonl", f"{REQUESTS}/*.json", f"{EVALUATIONS}/*.json")
LEFT_OUT = "[the reference is not kept here: {name}]"
SUFFIX = ".json.gz"


def write_recording(folder: Path, file: Path, *, left_out: str = "") -> None:
    """Keep what a replay of a run needs.

    Args:
        folder: of a run that has ended.
        file: to write.
        left_out: name of the reference, where it is to be left out; empty keeps it.
    """
    texts = {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in _kept(folder)}
    if left_out:
        reference = json.loads(texts["run.json"])["reference"]
        texts = {name: _swap(text, reference, LEFT_OUT.format(name=left_out)) for name, text in texts.items()}
    kept = json.dumps({"left_out": left_out, "files": texts}, indent=0, sort_keys=True)
    file.write_bytes(gzip.compress(kept.encode(), mtime=0))


def left_out(file: Path) -> str:
    """Name of the reference that a recording leaves out; empty where it holds it."""
    return str(_read(file)["left_out"])


def read_recording(file: Path, folder: Path, *, reference: str = "") -> None:
    """Make the folder of a run that can be replayed.

    Args:
        file: what `write_recording` wrote.
        folder: to fill.
        reference: text of the reference, where the recording leaves it out.

    Raises:
        BadInput: if the reference is left out and not given.
    """
    recording = _read(file)
    if recording["left_out"] and not reference:
        raise BadInput(f"{file.name}: leaves the reference {recording['left_out']} out; give its text")
    for name, text in recording["files"].items():
        if recording["left_out"]:
            text = _swap(text, LEFT_OUT.format(name=recording["left_out"]), reference)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class AnswersInPlace(ReplayModel):
    """Answers by who asks, and at which attempt: the same answers to prompts that were reworded since."""

    def key(self, request: ModelRequest) -> str:
        """What an answer is found by."""
        return f"{request.role} {request.stage} {request.attempt} {request.mode} {request.draft}"


def record_runs(runs: ModelRuns, into: Path) -> int:
    """Record every model's run that ended; a reference that does not lie in this checkout is left out.

    Returns:
        How many there are.
    """
    into.mkdir(parents=True, exist_ok=True)
    ended = [run for run in runs.planned_runs if run.player == "model" and runs.ended(run)]
    for run in ended:
        reference, folder = Path(runs.terms.references[run.problem]), runs.run_folder(run)
        assert folder is not None
        theirs = "" if reference.is_relative_to(CHECKOUT) else f"{reference.parent.name}/{reference.name}"
        without = f"-without-{run.without}" if run.without else ""
        write_recording(folder, into / f"{run.problem}{without}{SUFFIX}", left_out=theirs)
    return len(ended)


def replay_recording(file: Path, references: Path | None = None) -> str:
    """Repeat a recorded run; return what differs at its end, empty if nothing does.

    Args:
        file: the recording.
        references: folder of the references that are left out.

    Raises:
        BadInput: if the reference is left out and not there, or the run asks what it did not ask.
    """
    with tempfile.TemporaryDirectory(prefix="egg-graph-recording-") as name:
        read_recording(file, Path(name), reference=_reference(file, references))
        return ", ".join(replay_run(Path(name)).differs)


def refresh_recording(file: Path, references: Path | None = None) -> None:
    """Repeat a recorded run with the prompts of today, and keep those: its answers, and its measurements, stay.

    A later replay then compares with the prompts of today. The answers were given to those of the first recording.

    Raises:
        BadInput: if the run goes another way than it went, so that an answer or a measurement is missing.
    """
    with tempfile.TemporaryDirectory(prefix="egg-graph-recording-") as name:
        old = Path(name) / "old"
        read_recording(file, old, reference=_reference(file, references))
        request, evaluator = read_request(old), ReplayEvaluator(old)
        run = optimize(
            request["reference"],
            name=request["name"],
            model=AnswersInPlace(requests=read_requests(old)),
            evaluator=evaluator,
            runs_dir=Path(name) / "runs",
            **{**request["context"], "target": evaluator.task.target.key},
        )
        write_recording(run.folder, file, left_out=left_out(file))


def _reference(file: Path, references: Path | None) -> str:
    """Text of the reference that a recording leaves out; empty where it leaves none out, or it is not there."""
    path = references / left_out(file) if references is not None and left_out(file) else None
    return path.read_text(encoding="utf-8") if path is not None and path.is_file() else ""


def _kept(folder: Path) -> Iterator[Path]:
    for pattern in KEPT:
        yield from sorted(folder.glob(pattern))


def _read(file: Path) -> dict[str, Any]:
    recording: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return recording


def _swap(text: str, there: str, instead: str) -> str:
    """Replace one text by another inside of JSON, whose writers escape letters beyond ASCII or do not."""
    for ascii_only in (True, False):
        old, new = (json.dumps(one.strip(), ensure_ascii=ascii_only)[1:-1] for one in (there, instead))
        text = text.replace(old, new)
    return text
