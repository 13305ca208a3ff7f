"""One call from a PyTorch module to a proven kernel, with a folder that keeps everything and can be resumed.

runs/<id>/run.json            what was asked: the reference and the knobs
runs/<id>/checkpoints.sqlite  every step, so that a killed run goes on where it was
runs/<id>/kernel.py           the kernel, if the run ended with one
runs/<id>/evidence.json       verdict, evaluation, baseline, summaries, cost
runs/<id>/history.jsonl       one attempt a line
runs/<id>/report.html         the same for a person
"""

import datetime
import json
import re
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from egg_graph.context import Context, check_device, choose_target
from egg_graph.evaluator.protocol import Evaluator
from egg_graph.graph import build_egg_graph
from egg_graph.nodes.events import Event
from egg_graph.nodes.prepare import read_reference
from egg_graph.runs.files import write_whole
from egg_graph.runs.results import Run, finished, write_results
from egg_graph.schema import BadInput, ModelRefused, Precision, Principle, Value
from egg_graph.state import InputState
from egg_graph.team import Team, check_model, resolve_team

Listener = Callable[[Event], None]


def optimize(
    source_or_path: str | Path | None = None,
    *,
    model: Any = None,
    team: Team | None = None,
    evaluator: Evaluator | None = None,
    principles: Sequence[Principle] | None = None,
    target: str = "auto",
    precision: Precision = "tf32",
    name: str | None = None,
    runs_dir: str | Path = "runs",
    resume: str | None = None,
    on_event: Listener | None = None,
    **context: Any,
) -> Run:
    """Optimize one PyTorch module, and keep everything in a folder of its own.

    Args:
        source_or_path: source text in KernelBench's form (`Model`, `get_inputs`, `get_init_inputs`), or a .py file.
        model, team, evaluator, principles: see `egg_graph_builder`; with none of them the embedded expert writes and
            this machine judges.
        target: hardware key, or `auto` for this machine's GPU.
        precision: the policy that binds kernel and baseline alike.
        name: what to call the task; the file's name if left out.
        runs_dir: where the run's folder is made.
        resume: id of an interrupted run to finish instead of starting one; see `resume`.
        on_event: called with every event (`egg_graph.nodes.events`) as it happens.
        **context: further knobs of `Context`.

    Raises:
        BadInput: if the module, an option or the run to resume is wrong; one line that says how to mend it.
        InfrastructureError: if the machine failed in spite of retries; resume the run when it is mended.
        ModelRefused: if the model's endpoint rejects the request.
    """
    parts = {"model": model, "team": team, "evaluator": evaluator, "principles": principles}
    if resume is not None:
        if source_or_path is not None or context:
            raise BadInput("a resumed run keeps its own reference and knobs: pass resume= without them")
        return _finish(Path(runs_dir) / resume, on_event, parts)
    knobs = _context(target=target, precision=precision, **context)
    given = str(source_or_path) if isinstance(source_or_path, Path) else source_or_path
    called, reference = read_reference(given, name)
    # What can be refused is refused now, rather than after a baseline and in a folder that holds nothing else.
    check_model(model)
    choose_target(knobs.target, knobs.knowledge_dir)
    parts["team"] = resolve_team(model) if team is None else team
    if evaluator is None:
        check_device(knobs.device)
    folder = _make_folder(Path(runs_dir), called)
    asked = {"reference": reference, "name": called, "context": asdict(knobs), "model": _model_name(model, team)}
    write_whole(folder / "run.json", json.dumps(asked, indent=2) + "\n")
    return _first(folder, on_event, parts)


def resume(run_id: str, *, runs_dir: str | Path = "runs", on_event: Listener | None = None, **parts: Any) -> Run:
    """Finish an interrupted run: nothing is lost and no evaluation is repeated. A finished run is read again.

    Args:
        run_id: name of its folder in `runs_dir`.
        on_event: called with every event from here on.
        **parts: model, team, evaluator, principles, as they were given to `optimize`. A model that was given by its
            name is remembered.

    Raises:
        BadInput: if there is no such run, or its model has to be given again.
    """
    return optimize(resume=run_id, runs_dir=runs_dir, on_event=on_event, **parts)


def _first(folder: Path, on_event: Listener | None, parts: dict[str, Any]) -> Run:
    """Run in a new folder; it goes again if the run is refused before any attempt, for there is nothing to resume."""
    attempted = False

    def listen(event: Event) -> None:
        nonlocal attempted
        attempted = attempted or event["event"] == "attempt"
        if on_event is not None:
            on_event(event)

    try:
        return _finish(folder, listen, parts)
    except (BadInput, ModelRefused):
        if not attempted:
            shutil.rmtree(folder)
        raise


def _finish(folder: Path, on_event: Listener | None, parts: dict[str, Any]) -> Run:
    """Run the graph from where the folder's checkpoints stand to its end, and write the results."""
    asked = _read_asked(folder)
    parts = {**parts, "model": _remembered(asked["model"], parts)}
    context = _context(**asked["context"])
    config: Any = {"configurable": {"thread_id": folder.name}}
    with _saver(folder / "checkpoints.sqlite") as saver:
        graph = build_egg_graph(**parts, checkpointer=saver)
        begun = graph.get_state(config)
        # `tasks`, not `next`: the latter leaves out a task whose result is saved but not yet applied.
        if begun.tasks or not begun.values:
            start = None if begun.values else InputState(reference=asked["reference"], name=asked["name"])
            for _, event in graph.stream(
                start, config, context=context, stream_mode="custom", subgraphs=True, durability="sync"
            ):
                if on_event is not None:
                    on_event(event)  # type: ignore[arg-type]
        run = finished(folder, graph.get_state(config).values)  # type: ignore[arg-type]
    write_results(run)
    return run


def _context(**knobs: Any) -> Context:
    unknown = sorted(set(knobs) - set(Context.__dataclass_fields__))
    if unknown:
        raise BadInput(f"no knob {unknown[0]!r}; the knobs are {', '.join(Context.__dataclass_fields__)}")
    return Context(**knobs)


def _make_folder(runs: Path, name: str) -> Path:
    """A new folder, named by time and task."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    word = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:40] or "run"
    folder = runs / f"{now}-{word}-{secrets.token_hex(2)}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise BadInput(f"cannot make the run's folder {folder}: {error.strerror}; pass another runs_dir") from error
    return folder


def _read_asked(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except OSError as error:
        known = sorted(path.parent.name for path in folder.parent.glob("*/run.json"))
        there = f"there are {', '.join(known[-5:])}" if known else "there is none"
        raise BadInput(f"no run {folder.name!r} in {folder.parent}: {there}") from error


def _model_name(model: Any, team: Team | None) -> Any:
    """What run.json remembers: a name, a mapping of names, None for the embedded expert, False for an object."""
    if team is not None or not (model is None or isinstance(model, str | dict)):
        return False
    if isinstance(model, dict) and not all(isinstance(one, str) for one in model.values()):
        return False
    return model


def _remembered(name: Any, parts: dict[str, Any]) -> Any:
    if parts["team"] is not None or parts["model"] is not None:
        return parts["model"]
    if name is False:
        raise BadInput("this run was started with a model or team object: pass the same one again to resume it")
    return name


@contextmanager
def _saver(path: Path) -> Iterator[SqliteSaver]:
    """A checkpointer that loads only our own values, whatever the environment says."""
    from egg_graph import schema

    ours = [(v.__module__, v.__name__) for v in vars(schema).values() if isinstance(v, type) and issubclass(v, Value)]
    serde = JsonPlusSerializer(allowed_msgpack_modules=[*ours, ("langgraph.types", "Overwrite")])
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        yield SqliteSaver(connection, serde=serde)
