"""One call from a PyTorch module to a proven kernel, with a folder that keeps everything and can be resumed."""

import shutil
from asyncio import CancelledError
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, closing, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.store.base import BaseStore

from egg_graph.calls import Call, asynchronous, blocking, entered, in_thread
from egg_graph.context import BUDGETS, Context, check_device, choose_target, make_context
from egg_graph.evaluator.local import local_evaluator
from egg_graph.evaluator.protocol import Evaluator
from egg_graph.graph import build_egg_graph
from egg_graph.model_requests import logging_requests
from egg_graph.nodes.events import Event, entry_of_event
from egg_graph.nodes.prepare import check_prices, read_kernel, read_plan, read_reference
from egg_graph.runs import history
from egg_graph.runs.checkpoints import open_checkpoints
from egg_graph.runs.evaluations import RecordedEvaluator
from egg_graph.runs.folder import change_request, lock, make_folder, read_request, write_request
from egg_graph.runs.named_folders import absolute_names
from egg_graph.runs.recorded_memory import recorded_memory
from egg_graph.runs.reopening import reopen
from egg_graph.runs.request_log import FolderLog, written_drafts
from egg_graph.runs.results import Run, make_run, write_results
from egg_graph.runs.tunable import write_tunable
from egg_graph.runs.tune_results import end_tune
from egg_graph.runs.winner import store_winner
from egg_graph.schema import AnswerPending, BadInput, InfrastructureError, ModelRefused, Precision, Principle
from egg_graph.state import InputState
from egg_graph.steering.compiled import EggGraph
from egg_graph.team import Team, check_model, check_width, each_model, plan_refusal, resolve_team, when_to_profile
from egg_graph.tuning import read_store, stores, user_store

Listener = Callable[[Event], Awaitable[None] | None]


@blocking
async def optimize(
    source_or_path: str | Path,
    *,
    model: Any = None,
    team: Team | None = None,
    evaluator: Evaluator | str | None = None,
    principles: Sequence[Principle] | None = None,
    store: BaseStore | None = None,
    target: str = "auto",
    precision: Precision = "tf32",
    name: str | None = None,
    kernel: str | Path | None = None,
    plan: str = "",
    runs_dir: str | Path = "runs",
    on_start: Callable[[Path], None] | None = None,
    on_event: Listener | None = None,
    **context: Any,
) -> Run:
    """Optimize one PyTorch module, and keep everything in a folder of its own.

    Args:
        source_or_path: source text in KernelBench's form (`Model`, `get_inputs`, `get_init_inputs`), or a .py file.
        model, team, evaluator, principles: see `egg_graph_builder`. By default the embedded expert writes the kernels
            and this machine evaluates them. A text names an evaluator elsewhere: the URL of an `egg-graph serve`, or
            `spool:FOLDER` (`spool:FOLDER,wait=SECONDS`).
        store: where the run recalls what was measured on similar problems, and keeps what it measures; any store of
            LangGraph's, such as `egg_graph.memory.on_disk.open_memory` opens. With one, the winner of its sweep goes
            into the user's store of winners as well. None for no memory. A replayed model is told what it was told in
            its run, and nothing else.
        target: hardware key, or `auto` for this machine's GPU.
        precision: precision policy of kernel and baseline alike.
        name: name of the task; by default the file's name.
        kernel: a kernel to start from, as source text or a .py file: judged in place of a seed, then improved.
        plan: what the analyst's first plan is, in words; the analyst is not asked then.
        runs_dir: the run's folder is made in this folder.
        on_start: called once with the run's folder, when the run can be resumed and before its first step.
        on_event: called with every event (`egg_graph.nodes.events`) as it happens; it may be asynchronous.
        **context: further knobs of `Context`.

    Ctrl-C ends the evaluation in work, with its processes; what was done is kept, and `resume` goes on with it.

    Raises:
        BadInput: if the module or an option is wrong; one line that says how to mend it.
        InfrastructureError: if the machine failed in spite of retries, or the run's folder cannot be written (disk
            full, folder gone); `resume` the run when it is mended.
        ModelRefused: if the model's endpoint rejects the request.
        AnswerPending: if an evaluator elsewhere has not answered yet; `resume` the run when it has.
    """
    folder, services = await in_thread(
        _make_run,
        {"reference": source_or_path, "name": name, "kernel": kernel, "plan": plan},
        {"model": model, "team": team, "evaluator": evaluator, "principles": principles, "store": store},
        {"target": target, "precision": precision, **context},
        Path(runs_dir),
    )
    if on_start is not None:
        await in_thread(on_start, folder)
    return await _start(folder, on_event, services)


aoptimize = asynchronous(optimize)
"""`optimize` in an event loop.

If it is cancelled, the evaluation in work ends within a second, with its processes, and no model is called any more.
What was done is kept, and `resume` goes on with it.
"""


@blocking
async def resume(
    run_id: str,
    *,
    model: Any = None,
    team: Team | None = None,
    evaluator: Evaluator | str | None = None,
    principles: Sequence[Principle] | None = None,
    store: BaseStore | None = None,
    runs_dir: str | Path = "runs",
    on_event: Listener | None = None,
    **budgets: Any,
) -> Run:
    """Finish an interrupted run. No finished evaluation is repeated, and no answer that had come is paid again.

    A run that has ended is read again. If a budget ended it, and that one is raised, it goes on where it stopped.

    Args:
        run_id: name of the run's folder in `runs_dir`.
        model, team, evaluator, principles, store: as they were given to `optimize`. A model or an evaluator that was
            given by its name is remembered.
        runs_dir: the folder that holds the run's folder.
        on_event: called with every event from here on.
        **budgets: knobs of `Context` that limit the run (`max_tokens`, `max_dollars` ..., `timeout`), in place of those
            it was started with. They are kept.

    Raises:
        BadInput: if there is no such run, its model has to be given again, or a knob is given that limits nothing.
        InfrastructureError: as `optimize`; if another process works on the run; or if its run.json or its
            checkpoints.sqlite is damaged.
        ModelRefused, AnswerPending: see `optimize`.
    """
    services = {"model": model, "team": team, "evaluator": evaluator, "principles": principles, "store": store}
    return await _run_to_end(Path(runs_dir) / run_id, on_event, services, budgets)


aresume = asynchronous(resume)
"""`resume` in an event loop. It can be cancelled as `aoptimize` can."""


def _make_run(
    given: dict[str, Any], services: dict[str, Any], knobs: dict[str, Any], runs_dir: Path
) -> tuple[Path, dict[str, Any]]:
    """Refuse what can be refused, and make the run's folder.

    Later there would be a baseline to wait for, and a folder that holds nothing else.
    """
    context = make_context(knobs)
    task_name, reference = read_reference(given["reference"], given["name"])
    handed_in = {"kernel": read_kernel(given["kernel"]), "plan": read_plan(given["plan"])}
    model, team = services["model"], services["team"]
    if services["store"] is not None and not context.memory:
        raise BadInput("a store is given, and memory is off (memory=False): leave out one of the two")
    check_model(model)
    evaluator = services["evaluator"]
    if context.target != "auto" or not getattr(_evaluator(evaluator), "judges_elsewhere", False):
        choose_target(context.target, context.knowledge_dir)
    services = {**services, "team": resolve_team(model) if team is None else team}
    check_prices(services["team"], context)
    check_width(services["team"], context.width)
    if handed_in["plan"] and plan_refusal(services["team"]):
        raise BadInput("the embedded expert follows no plan: give --model (model=), or leave out --plan (plan=)")
    if evaluator is None:
        check_device(context.device)
    for path in stores():
        read_store(path)  # a damaged one is told now, not in the middle of a run
    folder = make_folder(runs_dir, task_name)
    request = {"reference": reference, "name": task_name, **handed_in, "context": asdict(context)}
    named = absolute_names(evaluator) if isinstance(evaluator, str) else None
    principles = services["principles"]
    kept = None if principles is None else [principle.model_dump(mode="json") for principle in principles]
    saved = {"model": absolute_names(_saved_model(model, team)), "evaluator": named, "principles": kept}
    write_request(folder, {**request, **saved})
    return folder, services


async def _start(folder: Path, on_event: Listener | None, services: dict[str, Any]) -> Run:
    """Run in a new folder. Remove the folder if the run is refused before its first attempt."""
    attempted = False

    async def listen(event: Event) -> None:
        nonlocal attempted
        attempted = attempted or event["event"] == "attempt"
        if on_event is not None:
            await Call(on_event, event).amake()

    try:
        return await _run_to_end(folder, listen, services)
    except (AnswerPending, InfrastructureError, CancelledError) as error:  # Ctrl-C cancels
        error.add_note(f"go on with egg_graph.resume({folder.name!r}, runs_dir={str(folder.parent)!r})")
        raise
    except (BadInput, ModelRefused):
        if not attempted:
            await in_thread(partial(shutil.rmtree, folder, ignore_errors=True))
        raise


async def _run_to_end(
    folder: Path, on_event: Listener | None, services: dict[str, Any], budgets: Mapping[str, Any] | None = None
) -> Run:
    """Lock the folder, run the graph from its last checkpoint to its end, and write the results."""
    started = monotonic()
    request = await in_thread(read_request, folder)
    evaluator = _evaluator(services["evaluator"] or request.get("evaluator"))
    before = make_context(request["context"])
    context = _with_budgets(before, budgets or {})
    services = {**services, "model": _choose_model(request["model"], services)}
    profile = when_to_profile(context.profile, services["model"] if services["team"] is None else services["team"])
    remembers = context.memory and services["store"] is not None
    if (replayed_store := await in_thread(recorded_memory, services["model"], before.knowledge_dir)) is not None:
        services["store"] = replayed_store
    recorded = RecordedEvaluator(
        (lambda: evaluator) if evaluator is not None else partial(local_evaluator, context.device, profile), folder
    )
    config: Any = {"configurable": {"thread_id": folder.name}}
    async with entered(lock(folder)), entered(open_checkpoints(folder)) as checkpointer:
        graph = build_egg_graph(**{**services, "evaluator": recorded}, checkpointer=checkpointer)
        await in_thread(checkpointer.check_keys, graph.channels)
        if context != before:
            await in_thread(_check_budgets, services, context)
            await in_thread(change_request, folder, {**request, "context": asdict(context)})
            await reopen(graph, config, before, context)
        saved = await graph.aget_state(config)
        # `tasks`, not `next`: the latter leaves out a task whose result is saved but not yet applied.
        worked = bool(saved.tasks or not saved.values)
        if worked:
            if evaluator is None:
                await in_thread(recorded.start)
            given = {key: request[key] for key in InputState.__annotations__ if key in request}
            log = await in_thread(FolderLog, folder, saved.values.get("usage"), written_drafts(saved))
            async with entered(history.sitting(folder, started)):
                with closing(log), logging_requests(log):
                    await _work(graph, None if saved.values else given, config, context, folder, on_event)
                saved = await graph.aget_state(config)
            await in_thread(log.files.flush)
            await in_thread(recorded.files.flush)
        if "status" not in saved.values:
            raise BadInput(
                f"run {folder.name} stopped at a step that this egg-graph does not have: finish it with the version "
                f"that started it, or start a new run of the reference that {folder / 'run.json'} keeps"
            )
        ledger = await in_thread(history.read_ledger, folder)
        run = make_run(folder, saved.values, ledger)  # type: ignore[arg-type]
        await in_thread(write_results, run)
        await in_thread(write_tunable, run)
        await in_thread(partial(end_tune, run, await in_thread(read_request, folder), worked=worked))
        if worked and remembers:
            await in_thread(store_winner, run, [user_store()])
    return run


def _with_budgets(context: Context, budgets: Mapping[str, Any]) -> Context:
    """The knobs of a run, with some of its budgets given anew."""
    if wrong := sorted(set(budgets) - BUDGETS):
        raise BadInput(
            f"{wrong[0]}: a run is resumed with the knobs it was started with; only its budgets may be given anew: "
            f"{', '.join(sorted(BUDGETS))}"
        )
    return make_context({**asdict(context), **budgets}) if budgets else context


def _check_budgets(services: dict[str, Any], context: Context) -> None:
    check_prices(services["team"] or resolve_team(services["model"]), context)


async def _work(
    graph: EggGraph[Any, Any, Any, Any],
    given: Any,
    config: Any,
    context: Context,
    folder: Path,
    on_event: Listener | None,
) -> None:
    """Run the graph to its end, and tell what happens."""
    control = RunControl()
    stream = graph.astream(
        given,
        config,
        context=context,
        stream_mode="custom",
        subgraphs=True,
        durability="sync",
        control=control,
    )
    await _tell(stream, folder, on_event, control)


async def _tell(stream: AsyncIterator[Any], folder: Path, on_event: Listener | None, control: RunControl) -> None:
    """Write every call into the run's history, and hand every event to the listener.

    If one of the two fails, the step in work is finished and saved before the run stops.
    """
    failure: Exception | None = None
    with suppress(GraphDrained):
        async with aclosing(stream) as events:  # type: ignore[type-var]
            async for _, event in events:
                try:
                    if event["event"] == "ledger":
                        await in_thread(history.append, folder, entry_of_event(event))
                    if on_event is not None and failure is None:
                        await Call(on_event, event).amake()
                except Exception as error:  # noqa: BLE001 - raised below
                    failure = failure or error
                    control.request_drain("the listener failed")
    if failure is not None:
        raise failure


def _evaluator(given: Evaluator | str | None) -> Evaluator | None:
    """The evaluator that was given, by itself or by its name; None for this machine's.

    Raises:
        BadInput: if no evaluator has that name.
    """
    if not isinstance(given, str):
        return given
    from egg_graph.evaluator.remote.by_name import evaluator_by_name

    return evaluator_by_name(given)


def _saved_model(model: Any, team: Team | None) -> Any:
    """What run.json keeps: a name, a mapping of names, None for the embedded expert, False for an object."""
    if team is not None or not (model is None or isinstance(model, str | dict)):
        return False
    if isinstance(model, dict):
        each = [one for given in model.values() for one in each_model(given)]
        return model if all(isinstance(one, str) for one in each) else False
    return model


def _choose_model(saved: Any, services: dict[str, Any]) -> Any:
    """The model that was given now, else the one that run.json keeps."""
    if services["team"] is not None or services["model"] is not None:
        return services["model"]
    if saved is False:
        raise BadInput("this run was started with a model or team object: pass the same one again to resume it")
    return saved
