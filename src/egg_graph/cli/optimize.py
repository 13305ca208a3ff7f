"""`egg-graph optimize`: from a PyTorch module to a proven Triton kernel, with live progress."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding

from egg_graph.cli.console import REJECTED, plain, stderr, stdout
from egg_graph.cli.files import check_reference, read_source
from egg_graph.cli.options import EVALUATOR, MODEL, given, given_knobs, knob
from egg_graph.cli.progress import Progress
from egg_graph.cli.stopping import stoppable
from egg_graph.cli.sweep_table import show_sweep
from egg_graph.cli.terms import DEFAULT_RUNS, resume_command, tell_early_end, tell_resumed
from egg_graph.cli.verdict import show_verdict, tell_cost
from egg_graph.context import BUDGETS, Accept, Context, Device, SweepOf, check_device, choose_target, make_context
from egg_graph.evaluator.local import local_evaluator
from egg_graph.schema import AnswerPending, BadInput, Domain, InfrastructureError, ModelRefused, Precision
from egg_graph.schema.spending import LEAST_SHOWN
from egg_graph.team import name_models, read_models, when_to_profile

if TYPE_CHECKING:
    from egg_graph import Run
    from egg_graph.schema import Ledger

FROM_EGG_MODEL = "EGG_MODEL"


def optimize(
    reference: Annotated[
        Path | None, typer.Argument(help="PyTorch module in KernelBench's form: Model, get_inputs, get_init_inputs.")
    ] = None,
    model: Annotated[list[str] | None, MODEL] = None,
    name: Annotated[str | None, typer.Option(help="What to call the task.", show_default="the file's name")] = None,
    kernel: Annotated[
        Path | None, typer.Option(help="A kernel to start from: judged in place of a seed, then improved.")
    ] = None,
    plan: Annotated[
        str | None, typer.Option(help="What to change first, in words, in place of the analyst's first plan.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="Where the run's folder is made.")] = DEFAULT_RUNS,
    resume: Annotated[
        str | None, typer.Option(help="Id of an interrupted run to finish, instead of a reference.")
    ] = None,
    target: Annotated[str | None, knob("target", panel="Task")] = None,
    precision: Annotated[Precision | None, knob("precision", panel="Task")] = None,
    domain: Annotated[Domain | None, knob("domain", panel="Task")] = None,
    device: Annotated[Device | None, knob("device", panel="Task")] = None,
    evaluator: Annotated[str | None, EVALUATOR] = None,
    accept: Annotated[Accept | None, knob("accept", panel="Task")] = None,
    triton_only: Annotated[bool | None, knob("triton_only", "--triton-only", panel="Task")] = None,
    max_attempts: Annotated[int | None, knob("max_attempts")] = None,
    max_repairs: Annotated[int | None, knob("max_repairs")] = None,
    max_optimizations: Annotated[int | None, knob("max_optimizations")] = None,
    width: Annotated[int | None, knob("width")] = None,
    max_configs: Annotated[int | None, knob("max_configs")] = None,
    max_seconds: Annotated[float | None, knob("max_seconds")] = None,
    max_tokens: Annotated[int | None, knob("max_tokens")] = None,
    max_calls: Annotated[int | None, knob("max_calls")] = None,
    max_dollars: Annotated[float | None, knob("max_dollars")] = None,
    max_gpu_seconds: Annotated[float | None, knob("max_gpu_seconds")] = None,
    budgets: Annotated[list[str] | None, knob("budgets", "--budget")] = None,
    timeout: Annotated[float | None, knob("timeout")] = None,
    stages: Annotated[list[str] | None, knob("stages", "--stage")] = None,
    tune: Annotated[bool | None, knob("tune", "--tune/--no-tune")] = None,
    sweep: Annotated[SweepOf | None, knob("sweep")] = None,
    near_floor: Annotated[float | None, knob("near_floor")] = None,
    min_gain_per_dollar: Annotated[float | None, knob("min_gain_per_dollar")] = None,
    patience: Annotated[int | None, knob("patience")] = None,
    tune_untimed: Annotated[bool | None, knob("tune_untimed", "--tune-untimed")] = None,
    expert_seed: Annotated[bool | None, knob("expert_seed", "--expert-seed/--no-expert-seed")] = None,
    memory: Annotated[bool | None, knob("memory", "--memory/--no-memory")] = None,
    tuned_baseline: Annotated[bool | None, knob("tuned_baseline", "--tuned")] = None,
    knowledge_dir: Annotated[Path | None, knob("knowledge_dir", "--knowledge")] = None,
) -> None:
    """Optimize one PyTorch module, and say what was proven about the kernel.

    Shows each stage and attempt as it happens; leaves kernel.py, tunable.py (the same with CONFIG and SPACE, for
    `tune`), evidence.json, history.jsonl and report.html in runs/<id>/. Set EGG_MODEL instead of --model to use the
    same model every time.

    At the limit of a budget the run ends with the best kernel so far; --resume with a higher one goes on with it.
    Ctrl-C and SIGTERM stop a run before the next request to a model; it can be resumed.

    Exit status 0 if a usable kernel was accepted, 1 if the reference is kept, 2 for bad usage or input, 3 if the
    machine failed, 4 if an evaluator elsewhere has yet to answer: resume the run when it has; 130 or 143 where it was
    stopped.
    """
    knobs = given_knobs(locals())
    kernel_text = None if kernel is None else read_source(kernel, "kernel")
    handed_in = given(kernel=kernel_text, plan=plan, evaluator=evaluator)
    if resume is not None and (reference is not None or set(knobs) - BUDGETS or handed_in):
        raise BadInput(
            "--resume finishes a run with the reference and knobs it was started with; give it alone, or with higher "
            "budgets"
        )
    if resume is None:
        check_reference(reference)
        context = _check_knobs(knobs)
    if plan is not None and not plan.strip():
        raise BadInput("--plan is empty: say what to change first, or leave it out")
    models = read_models(model or [], None if resume else os.environ.get(FROM_EGG_MODEL))
    if resume is None and evaluator is None:
        _start_judge(context, models)
    console = stdout()
    with _memory(memory is not False) as store:
        run = _run(console, reference, models, name, runs, resume, {**handed_in, **knobs}, store)
    finish_run(console, run)


def _start_judge(context: Context, player: object) -> None:
    """Start this machine's judge, which imports PyTorch while this process imports LangGraph."""
    local_evaluator(context.device, when_to_profile(context.profile, player)).start()


def _check_knobs(knobs: dict[str, Any]) -> Context:
    """The knobs; a wrong value is refused before anything is announced.

    Raises:
        BadInput: if a value is out of its range, there is no such target, or no GPU where one is asked for.
    """
    context = make_context(knobs)
    check_device(context.device)
    if context.target != "auto":
        choose_target(context.target, context.knowledge_dir)
    return context


def finish_run(console: Console, run: "Run") -> None:
    """Print what a run came to; of a run of `tune` its sweep as well.

    Raises:
        typer.Exit: with status 1 where the reference is kept.
    """
    from egg_graph.runs.folder import read_request
    from egg_graph.runs.tune_results import TUNE

    if TUNE in read_request(run.folder):
        show_sweep(console, run)
    conclude(console, run)
    if not run.accepted:
        raise typer.Exit(REJECTED)


def go_on(console: Console, run: str, runs: Path, model: Any, options: dict[str, Any], **store: Any) -> "Run":
    """Finish an interrupted run, whichever command began it.

    Args:
        run: its id.
        runs: the folder that holds its folder.
        model: as it is given anew; None for the run's own.
        options: budgets that are given anew.
        store: the memory, if there is one.
    """
    from egg_graph.runs.folder import read_request

    tell_resumed(console, runs / run, model, options)
    ranks_untimed = read_request(runs / run)["context"].get("sweep") != "whole"
    import egg_graph

    with Progress(console, ranks_untimed=ranks_untimed) as progress, stoppable(), resume_hint(runs, run):
        return egg_graph.resume(run, runs_dir=runs, on_event=progress, model=model, **store, **options)


def _run(
    console: Console,
    reference: Path | None,
    model: str | dict[str, Any] | None,
    name: str | None,
    runs: Path,
    resume: str | None,
    options: dict[str, Any],
    store: dict[str, Any],
) -> "Run":
    if reference is None:
        return go_on(console, str(resume), runs, model, options, **store)
    console.print(f"[bold]{plain(reference)}[/] by {plain(name_models(model))}")
    import egg_graph

    ranks_untimed = options.get("sweep") != "whole"
    with Progress(console, ranks_untimed=ranks_untimed) as progress, stoppable(), resume_hint(runs, resume):

        def begin(folder: Path) -> None:
            _show_estimate(console, folder, model)

        return egg_graph.optimize(
            reference, model=model, name=name, runs_dir=runs, on_start=begin, on_event=progress, **store, **options
        )


@contextmanager
def _memory(wanted: bool) -> Iterator[dict[str, Any]]:
    """The memory on this machine, as an option of a run; none where it cannot be used, which is told."""
    from egg_graph.memory.on_disk import open_memory

    with ExitStack() as stack:
        options: dict[str, Any] = {}
        if wanted:
            try:
                options = {"store": stack.enter_context(open_memory())}
            except InfrastructureError as error:
                stderr().print(f"without memory: {plain(error)}", soft_wrap=True)
        yield options


def _show_estimate(console: Console, folder: Path, model: str | dict[str, Any] | None) -> None:
    """Print what the run in this folder will probably cost, if models play the team."""
    from egg_graph.context import make_context
    from egg_graph.evaluator import gpu_present
    from egg_graph.runs.estimate import estimate_run
    from egg_graph.runs.folder import read_request

    request = read_request(folder)
    context = make_context(request["context"])
    timed = bool(request.get("evaluator")) or (context.device != "none" and gpu_present())
    estimate = estimate_run(model, context, request["reference"], timed=timed)
    if estimate is not None:
        console.print(f"estimate  {plain(estimate)} (what such runs took; no promise)", soft_wrap=True)


@contextmanager
def resume_hint(runs: Path, resume: str | None) -> Iterator[None]:
    """Where a run stops before its end, print how to go on with it."""
    before = set(runs.glob("*/run.json"))
    try:
        yield
    except (KeyboardInterrupt, InfrastructureError, ModelRefused, AnswerPending) as error:
        from egg_graph.runs.folder import is_anothers

        if resume is None:
            new = [path.parent for path in set(runs.glob("*/run.json")) - before]
            stopped = [folder.name for folder in new if not is_anothers(folder)]
        else:
            stopped = [resume] if isinstance(error, KeyboardInterrupt | AnswerPending) else []
        for run in stopped:
            stderr().print(f"stopped; go on with: {plain(resume_command(run, runs))}", soft_wrap=True)
        raise


def conclude(console: Console, run: "Run") -> None:
    """Print the verdict, what the run cost, what ended it early, where its files are, where time and memory went."""
    task = run.state["task"]
    if run.evaluation is None:
        for line in run.verdict.splitlines():
            console.print(Padding(plain(line), (0, 0, 0, len(line) - len(line.lstrip()))))
    else:
        title = f"{task.name}, target {task.target.name}, {task.precision}"
        show_verdict(console, run.evaluation, title=title, tuned=run.state["baseline"].tuned)
    spent = tell_cost(run.usage)
    tried = _attempts_words([attempt.number for attempt in run.attempts])
    seconds = run.seconds if run.ledger is None else run.ledger.seconds
    console.print(f"{tried} in {seconds:.0f} s, {spent}")
    tell_early_end(console, run)
    if run.kernel_path is not None:
        console.print(f"kernel    {plain(run.kernel_path)}")
    console.print(f"report    {plain(run.folder / 'report.html')}")
    console.print(f"evidence  {plain(run.folder / 'evidence.json')}, history.jsonl beside it")
    if run.ledger is not None:
        console.print(f"time      {plain(spent_words(run.ledger))}", soft_wrap=True)


def _attempts_words(numbers: Sequence[int]) -> str:
    """How many attempts there were; the contender is number 0, and the budget of attempts does not count it."""
    own = sum(number > 0 for number in numbers)
    words = f"{own} attempt{'' if own == 1 else 's'}"
    return f"{words} and attempt 0" if 0 in numbers else words


def spent_words(ledger: "Ledger") -> str:
    """Where the wall time and the GPU memory of a run went, in one line; parts that took no time are left out."""
    rows = ", ".join(f"{name} {took:.1f}" for name, took in ledger.rows if took >= LEAST_SHOWN or name == "other")
    peaks = ", ".join(
        f"{process} {'not measured' if nbytes is None else f'{nbytes / 2**30:.1f} GiB'}"
        for process, nbytes in ledger.peaks
    )
    measured = any(nbytes is not None for _, nbytes in ledger.peaks)
    again = f" in {ledger.sittings} sittings" if ledger.sittings > 1 else ""
    cut_off = ", of which the last unfinished call is not counted where it was killed" if ledger.cut_off else ""
    memory = f"GPU memory at most: {peaks}" if measured else "GPU memory not measured"
    return f"{ledger.seconds:.1f} s{again}{cut_off}: {rows}; {memory}"
