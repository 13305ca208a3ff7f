"""One call from a PyTorch module to a proven kernel, with a folder that keeps everything and can be resumed."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from egg_graph.context import check_device, choose_target, make_context
from egg_graph.evaluator.protocol import Evaluator
from egg_graph.graph import build_egg_graph
from egg_graph.nodes.events import Event
from egg_graph.nodes.prepare import read_reference
from egg_graph.runs.checkpoints import open_checkpoints
from egg_graph.runs.folder import lock, make_folder, read_request, write_request
from egg_graph.runs.results import Run, make_run, write_results
from egg_graph.schema import BadInput, ModelRefused, Precision, Principle
from egg_graph.state import InputState
from egg_graph.team import Team, check_model, resolve_team

Listener = Callable[[Event], None]


def optimize(
    source_or_path: str | Path,
    *,
    model: Any = None,
    team: Team | None = None,
    evaluator: Evaluator | None = None,
    principles: Sequence[Principle] | None = None,
    target: str = "auto",
    precision: Precision = "tf32",
    name: str | None = None,
    runs_dir: str | Path = "runs",
    on_start: Callable[[Path], None] | None = None,
    on_event: Listener | None = None,
    **context: Any,
) -> Run:
    """Optimize one PyTorch module, and keep everything in a folder of its own.

    Args:
        source_or_path: source text in KernelBench's form (`Model`, `get_inputs`, `get_init_inputs`), or a .py file.
        model, team, evaluator, principles: see `egg_graph_builder`. By default the embedded expert writes the kernels
            and this machine evaluates them.
        target: hardware key, or `auto` for this machine's GPU.
        precision: precision policy of kernel and baseline alike.
        name: name of the task; by default the file's name.
        runs_dir: the run's folder is made in this folder.
        on_start: called once with the run's folder, when the run can be resumed and before its first step.
        on_event: called with every event (`egg_graph.nodes.events`) as it happens.
        **context: further knobs of `Context`.

    Raises:
        BadInput: if the module or an option is wrong; one line that says how to mend it.
        InfrastructureError: if the machine failed in spite of retries, or the run's folder cannot be written (disk
            full, folder gone); `resume` the run when it is mended.
        ModelRefused: if the model's endpoint rejects the request.
    """
    knobs = make_context({"target": target, "precision": precision, **context})
    task_name, reference = read_reference(source_or_path, name)
    # Refuse now what can be refused: later there would be a baseline to wait for, and a folder that holds nothing else.
    check_model(model)
    choose_target(knobs.target, knobs.knowledge_dir)
    services = {"model": model, "evaluator": evaluator, "principles": principles}
    services["team"] = resolve_team(model) if team is None else team
    if evaluator is None:
        check_device(knobs.device)
    folder = make_folder(Path(runs_dir), task_name)
    saved_model = _saved_model(model, team)
    write_request(folder, {"reference": reference, "name": task_name, "context": asdict(knobs), "model": saved_model})
    if on_start is not None:
        on_start(folder)
    return _start(folder, on_event, services)


def resume(
    run_id: str,
    *,
    model: Any = None,
    team: Team | None = None,
    evaluator: Evaluator | None = None,
    principles: Sequence[Principle] | None = None,
    runs_dir: str | Path = "runs",
    on_event: Listener | None = None,
) -> Run:
    """Finish an interrupted run. No finished evaluation is repeated. A run that has ended is read again.

    Args:
        run_id: name of the run's folder in `runs_dir`.
        model, team, evaluator, principles: as they were given to `optimize`. A model that was given by its name is
            remembered.
        runs_dir: the folder that holds the run's folder.
        on_event: called with every event from here on.

    Raises:
        BadInput: if there is no such run, or its model has to be given again.
        InfrastructureError: as `optimize`; if another process works on the run; or if its run.json or its
            checkpoints.sqlite is damaged.
        ModelRefused: see `optimize`.
    """
    services = {"model": model, "team": team, "evaluator": evaluator, "principles": principles}
    return _run_to_end(Path(runs_dir) / run_id, on_event, services)


def _start(folder: Path, on_event: Listener | None, services: dict[str, Any]) -> Run:
    """Run in a new folder. Remove the folder if the run is refused before its first attempt."""
    attempted = False

    def listen(event: Event) -> None:
        nonlocal attempted
        attempted = attempted or event["event"] == "attempt"
        if on_event is not None:
            on_event(event)

    try:
        return _run_to_end(folder, listen, services)
    except (BadInput, ModelRefused):
        if not attempted:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _run_to_end(folder: Path, on_event: Listener | None, services: dict[str, Any]) -> Run:
    """Lock the folder, run the graph from its last checkpoint to its end, and write the results."""
    request = read_request(folder)
    services = {**services, "model": _choose_model(request["model"], services)}
    context = make_context(request["context"])
    config: Any = {"configurable": {"thread_id": folder.name}}
    with lock(folder), open_checkpoints(folder) as checkpointer:
        graph = build_egg_graph(**services, checkpointer=checkpointer)
        saved = graph.get_state(config)
        # `tasks`, not `next`: the latter leaves out a task whose result is saved but not yet applied.
        if saved.tasks or not saved.values:
            start = None if saved.values else InputState(reference=request["reference"], name=request["name"])
            steps: Any = graph.stream(
                start, config, context=context, stream_mode="custom", subgraphs=True, durability="sync"
            )
            with closing(steps):  # a listener that raises ends the run here, not when the generator is collected
                for _, event in steps:
                    if on_event is not None:
                        on_event(event)
        run = make_run(folder, graph.get_state(config).values)  # type: ignore[arg-type]
        write_results(run)
    return run


def _saved_model(model: Any, team: Team | None) -> Any:
    """What run.json keeps: a name, a mapping of names, None for the embedded expert, False for an object."""
    if team is not None or not (model is None or isinstance(model, str | dict)):
        return False
    if isinstance(model, dict) and not all(isinstance(one, str) for one in model.values()):
        return False
    return model


def _choose_model(saved: Any, services: dict[str, Any]) -> Any:
    """The model that was given now, else the one that run.json keeps."""
    if services["team"] is not None or services["model"] is not None:
        return services["model"]
    if saved is False:
        raise BadInput("this run was started with a model or team object: pass the same one again to resume it")
    return saved
