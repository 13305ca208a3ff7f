"""The laboratory's commands. Exit statuses are those of `egg-graph`."""

import asyncio
import math
from pathlib import Path
from typing import Annotated

import typer

from egg_graph.cli.console import REJECTED, OneLineErrors, plain, stdout
from egg_graph.cli.files import read_candidate, read_task
from egg_graph.cli.options import DEVICE, OUT, PRECISION
from egg_graph.context import Device, check_device
from egg_graph.evaluator import environment
from egg_graph.schema import BadInput, Precision

lab = typer.Typer(
    cls=OneLineErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Measure the evaluator itself: endurance, faults, costs. See also egg-graph trust.",
)


@lab.command()
def soak(
    folders: Annotated[list[Path], typer.Argument(help="Corpora with right kernels and faulty ones.")],
    count: Annotated[int, typer.Option(min=1, help="Evaluations in all.")] = 200,
    faults: Annotated[bool, typer.Option("--faults/--no-faults", help="Mix faulty candidates in.")] = True,
    device: Annotated[Device, DEVICE] = "auto",
    problems: Annotated[Path | None, typer.Option(help="Folder of references; beside a corpus if left out.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that one run of a kernel may take.")] = 20.0,
    seed: Annotated[int, typer.Option(help="Seed of the mixture.")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="Evaluators side by side, each with a row of its own.")] = 1,
    max_seconds: Annotated[float | None, typer.Option(help="End the row after this, before --count.")] = None,
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Evaluate a long row of kernels with faults among them; then look for processes, files and memory left.

    Exit status 1 if a right kernel was disturbed, a fault accepted, or something left or grown.
    """
    from tests.lab.soak import Turn, run_soak, soak_page

    check_device(device)
    console = stdout()

    def print_turn(turn: Turn) -> None:
        console.print(
            f"{plain(turn.id):24} {plain(turn.status):16} {turn.seconds:6.1f} s {turn.resident_bytes >> 20:6} MiB "
            f"{turn.descriptors:4} descriptors {turn.processes:3} processes",
            soft_wrap=True,
        )

    results = run_soak(
        folders,
        out,
        count=count,
        faults=faults,
        device=device,
        problems=problems,
        timeout=timeout,
        seed=seed,
        workers=workers,
        max_seconds=math.inf if max_seconds is None else max_seconds,
        on_turn=print_turn,
    )
    typer.echo(soak_page(results))
    if results.complaints:
        raise typer.Exit(REJECTED)


@lab.command()
def faults(
    right: Annotated[Path, typer.Argument(help="A right kernel, with a header; judged after every fault.")],
    folders: Annotated[list[Path], typer.Argument(help="Folders of faulty kernels, with headers.")],
    device: Annotated[Device, DEVICE] = "auto",
    timeout: Annotated[float, typer.Option(help="Seconds that one run of a kernel may take.")] = 10.0,
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Provoke faults one by one, each with a right kernel judged after it.

    Beside the faulty kernels: a fork bomb that no gate has seen, a worker and a judge killed in the middle of an
    evaluation, and (on a GPU) hardware counters denied.

    Exit status 1 if a fault got another verdict than expected, took too long, or changed the right kernel's answer.
    """
    from tests.lab.faults import Fault, faults_page, run_faults

    check_device(device)
    console = stdout()

    def print_fault(fault: Fault) -> None:
        color = "green" if fault.as_expected and fault.same_answer else "red"
        result = f"{fault.status}, {fault.seconds:.1f} s, next {fault.after}: {plain(fault.reason)[:100]}"
        console.print(f"[{color}]{plain(fault.name)}[/]  {result}", soft_wrap=True)

    results = run_faults(folders, right, out, device=device, timeout=timeout, on_fault=print_fault)
    typer.echo(faults_page(results))
    if results.complaints:
        raise typer.Exit(REJECTED)


@lab.command()
def cost(
    reference: Annotated[Path, typer.Argument(help="PyTorch reference.")],
    candidate: Annotated[Path, typer.Argument(help="A right kernel for it.")],
    warm: Annotated[int, typer.Option(min=0, help="Further evaluations by a warm evaluator.")] = 3,
    kernelbench: Annotated[Path | None, typer.Option(help="A checkout of KernelBench, to be timed as well.")] = None,
    device: Annotated[Device, DEVICE] = "auto",
    precision: Annotated[Precision, PRECISION] = "tf32",
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Tell the seconds of one evaluation, cold and warm, by rung; and KernelBench's for the same kernel.

    KernelBench runs a kernel with all your rights, so it gets one only after it was found right here.
    """
    from tests.lab.cost import cost_page, run_cost

    check_device(device)
    task, kernel = read_task(reference, precision), read_candidate(candidate)
    results = run_cost(task, kernel, candidate.name, out, device=device, warm=warm, kernelbench=kernelbench)
    typer.echo(cost_page(results))


@lab.command()
def cancel(
    reference: Annotated[Path, typer.Argument(help="PyTorch reference.")],
    candidate: Annotated[Path, typer.Argument(help="A kernel for it that never returns.")],
    repeats: Annotated[int, typer.Option(min=1, help="Evaluations that are cancelled.")] = 5,
    device: Annotated[Device, DEVICE] = "auto",
    precision: Annotated[Precision, PRECISION] = "tf32",
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Tell how soon a cancelled evaluation frees the machine: its processes, its files, the GPU's memory."""
    from tests.lab.cancel import cancel_page, run_cancel

    check_device(device)
    task, kernel = read_task(reference, precision), read_candidate(candidate)
    typer.echo(cancel_page(run_cancel(task, kernel, candidate.name, out, device=device, repeats=repeats)))


@lab.command(name="server_runs")
def server_runs(
    references: Annotated[
        list[Path] | None, typer.Argument(help="References, taken in turn; eight small ones.")
    ] = None,
    runs: Annotated[int, typer.Option(min=2, help="Runs at once.")] = 8,
    attempts: Annotated[int, typer.Option(min=1, help="Most attempts of each run.")] = 2,
    configs: Annotated[int, typer.Option(min=0, help="Most configurations of each sweep; 0 for no sweeps.")] = 0,
    device: Annotated[Device, DEVICE] = "auto",
    max_seconds: Annotated[float, typer.Option(help="Give up after this.")] = 400.0,
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Run the whole graph many times at once on one LangGraph server, which is killed in the middle.

    Exit status 1 if an attempt was lost, a run holds anything of another one, or an answer was paid twice.
    """
    from tests.lab.server_runs import REFERENCES, run_server_runs, server_page

    check_device(device)
    results = run_server_runs(
        references or REFERENCES,
        out,
        runs=runs,
        attempts=attempts,
        configs=configs,
        device=device,
        max_seconds=max_seconds,
    )
    typer.echo(server_page(results))
    if results.complaints:
        raise typer.Exit(REJECTED)


@lab.command()
def full_size(
    references: Annotated[list[Path], typer.Argument(help="References in KernelBench's form.")],
    finalists: Annotated[bool, typer.Option("--finalists", help="Judge each kernel as a finalist too.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Judge each kernel once, and take no profile.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="References at a time on each GPU.")] = 1,
    seconds: Annotated[float, typer.Option(help="Begin no further reference after this.")] = math.inf,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the rows that --out has; judge the rest.")] = False,
    precision: Annotated[Precision, PRECISION] = "tf32",
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Judge the embedded expert's first kernel for each reference at its own shape, on all GPUs of this machine.

    Tells seconds and the peak of GPU memory by call.
    """
    from tests.lab.full_size import FullSizeRow, full_size_page, run_full_size

    console = stdout()

    def print_row(row: FullSizeRow) -> None:
        calls = ", ".join(f"{call.what} {call.seconds:.1f} s" for call in row.calls)
        last = row.last
        end = row.failed or (f"{last.status} {last.ratio or ''}" if last is not None else "no evaluation")
        console.print(f"{row.problem}  {calls}  {row.peak_bytes >> 30} GiB  {plain(end)}", soft_wrap=True)

    results = run_full_size(
        references,
        out,
        precision=precision,
        finalists=finalists,
        once=once,
        workers=workers,
        seconds=seconds,
        keep=keep,
        on_row=print_row,
    )
    typer.echo(full_size_page(results))


@lab.command()
def times(
    references: Annotated[list[Path], typer.Argument(help="References in KernelBench's form.")],
    kernelbench: Annotated[Path | None, typer.Option(help="A checkout of KernelBench, to be timed as well.")] = None,
    warm: Annotated[int, typer.Option(min=1, help="KernelBench's calls of a kernel beyond its first.")] = 2,
    profile: Annotated[bool, typer.Option("--profile", help="Profile finalists, and time a profile apart.")] = False,
    seconds: Annotated[float, typer.Option(help="Begin no further reference or kernel after this.")] = math.inf,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the rows that --out has; measure the rest.")] = False,
    before: Annotated[Path | None, typer.Option(help="Earlier results of this command, to compare with.")] = None,
    precision: Annotated[Precision, PRECISION] = "tf32",
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Time whole runs of the embedded expert and single evaluations at the references' own shapes, on all GPUs here.

    KernelBench runs a kernel with all your rights, so it gets one only after it was found right here.
    """
    from tests.lab.times import run_times
    from tests.lab.times_page import times_page
    from tests.lab.times_rows import TimesRow, figures_of

    console = stdout()

    def print_row(row: TimesRow) -> None:
        told = ", ".join(f"{name} {value:.2f}" for name, value in figures_of(row).items())
        console.print(plain(f"{row.problem}  {row.status or 'failed'}  {told}  {'; '.join(row.notes)}"), soft_wrap=True)

    results = run_times(
        references,
        out,
        precision=precision,
        profile=profile,
        kernelbench=kernelbench,
        warm=warm,
        seconds=seconds,
        keep=keep,
        before=before,
        on_row=print_row,
    )
    typer.echo(times_page(results))


@lab.command()
def survey(
    references: Annotated[list[Path] | None, typer.Argument(help="References in KernelBench's form.")] = None,
    compiled: Annotated[bool, typer.Option("--compile", help="Time torch.compile too.")] = False,
    switches: Annotated[bool, typer.Option("--switches", help="Time cudnn.benchmark and channels_last too.")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Calls of which the median is taken.")] = 9,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the rows that --out has; survey the rest.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="References at work at once; one call a GPU is timed.")] = 1,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of this host to deal them over.")] = 1,
    precision: Annotated[Precision, PRECISION] = "tf32",
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Write the embedded expert's kernels, every structure, and time them over their knobs beside PyTorch, on a GPU.

    Without references the page of the survey that --out has is written anew, held against the present rules.
    """
    from tests.lab.survey import SurveyRow, read_survey, run_survey, survey_page, write_survey

    console = stdout()

    def print_row(row: SurveyRow) -> None:
        best = row.best if row.kernels else math.nan
        base = row.base if row.pytorch else math.nan
        console.print(f"{row.problem}  PyTorch {base:.3f} ms  best {best:.3f} ms  {plain(str(row.failed or ''))[:200]}")

    if references:
        results = run_survey(
            references,
            out,
            precision=precision,
            repeats=repeats,
            compiled=compiled,
            switches=switches,
            keep=keep,
            workers=workers,
            gpus=gpus,
            on_row=print_row,
        )
    elif out is not None:
        results = read_survey(out)
        write_survey(out, results)
    else:
        raise BadInput("name references, or --out with a survey")
    typer.echo(survey_page(results))


@lab.command()
def throughput(
    reference: Annotated[Path, typer.Argument(help="PyTorch reference.")],
    candidates: Annotated[list[Path], typer.Argument(help="Kernels for it, taken in turn.")],
    workers: Annotated[list[int] | None, typer.Option(min=1, help="Workers of a further pool; 2 if left out.")] = None,
    ray: Annotated[bool, typer.Option("--ray", help="The further pools' workers are Ray actors.")] = False,
    count: Annotated[int, typer.Option(min=1, help="Evaluations by each pool.")] = 20,
    kill_one: Annotated[bool, typer.Option("--kill-one", help="Kill a judge in the middle of the work.")] = False,
    device: Annotated[Device, DEVICE] = "auto",
    precision: Annotated[Precision, PRECISION] = "tf32",
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Count evaluations per minute, with one worker and with several.

    Exit status 1 if an evaluation was lost.
    """
    from tests.lab.throughput import run_throughput, throughput_page

    check_device(device)
    results = run_throughput(
        read_task(reference, precision),
        [read_candidate(path) for path in candidates],
        [path.name for path in candidates],
        out,
        workers=workers or (2,),
        ray=ray,
        count=count,
        device=device,
        kill_one=kill_one,
    )
    typer.echo(throughput_page(results))
    if any(pace.lost for pace in results.paces):
        raise typer.Exit(REJECTED)


@lab.command("distinct_problems")
def distinct_problems(
    files: Annotated[list[Path], typer.Argument(help="Right kernels with headers, or folders of them.")],
    workers: Annotated[int, typer.Option(min=1, help="Evaluators side by side on one GPU.")] = 8,
    seconds: Annotated[float, typer.Option(min=0, help="Begin no further kernel after this.")] = math.inf,
    device: Annotated[Device, DEVICE] = "auto",
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Count evaluations a minute where every kernel needs a baseline of its own.

    Exit status 1 if an evaluation was lost.
    """
    from tests.lab.distinct_problems import Judged, distinct_problems_page, run_distinct_problems

    check_device(device)
    console = stdout()

    def print_judged(row: Judged) -> None:
        console.print(f"{row.ended:6.1f} s {plain(row.file):44} {plain(row.status)}", soft_wrap=True)

    results = run_distinct_problems(files, out, workers=workers, seconds=seconds, device=device, on_judged=print_judged)
    typer.echo(distinct_problems_page(results))
    if results.complaints:
        raise typer.Exit(REJECTED)


@lab.command("loaded_host")
def loaded_host(
    files: Annotated[list[Path], typer.Argument(help="Right kernels with headers, or folders of them.")],
    repeats: Annotated[int, typer.Option(min=1, help="Evaluations of each kernel on either kind of host.")] = 5,
    seconds: Annotated[float, typer.Option(min=0, help="Begin no further kernel after this.")] = math.inf,
    device: Annotated[Device, DEVICE] = "auto",
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Judge right kernels on an idle host and with a busy process on every core, and tell which verdicts differ.

    Exit status 1 if the load changed a verdict.
    """
    from tests.lab.loaded_host import Kernel, loaded_host_page, run_loaded_host

    check_device(device)
    console = stdout()

    def print_kernel(kernel: Kernel) -> None:
        idle, loaded = (", ".join(kernel.statuses(loaded=loaded)) for loaded in (False, True))
        console.print(f"{plain(kernel.file):44} idle {idle:24} loaded {loaded:24}", soft_wrap=True)

    results = run_loaded_host(files, out, repeats=repeats, seconds=seconds, device=device, on_kernel=print_kernel)
    typer.echo(loaded_host_page(results))
    if results.complaints:
        raise typer.Exit(REJECTED)


@lab.command()
def capture(
    folders: Annotated[list[Path], typer.Argument(help="Folders of references.")],
    precision: Annotated[Precision, PRECISION] = "ieee",
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Time the capture of every reference of some folders by the embedded expert; no GPU is needed.

    Exit status 1 if a capture failed for another reason than the reference.
    """
    from tests.lab.capture import Capture, captures_page, run_captures

    console = stdout()

    def print_capture(row: Capture) -> None:
        console.print(f"{plain(row.problem):70} {plain(row.outcome):10} {row.seconds:6.1f} s", soft_wrap=True)

    references = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    results = run_captures(references, out, precision=precision, on_capture=print_capture)
    typer.echo(captures_page(results))
    if any(row.outcome == "failed" for row in results.rows):
        raise typer.Exit(REJECTED)


@lab.command()
def hardware(
    device: Annotated[Device, DEVICE] = "auto",
    workers: Annotated[int, typer.Option(min=1, help="Processes side by side.")] = 2,
    only: Annotated[str, typer.Option(help="Names of kernels, or how they begin, with commas between.")] = "",
    recorded: Annotated[Path | None, typer.Option(help="Compare with these answers of a GPU.")] = None,
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Run generated kernels in the guarded interpreter and on a GPU, and compare the answers bit by bit.

    Without a GPU they are compiled only. Exit status 1 if an answer differs, or one side alone refuses a kernel.
    """
    from tests.lab.hardware import FINDINGS, HardwareRow, hardware_page, run_hardware

    check_device(device)
    gpu = device != "none" and recorded is None and environment().gpu is not None
    console = stdout()

    def print_row(row: HardwareRow) -> None:
        if row.outcome in FINDINGS:
            console.print(f"{plain(row.name):34} {row.outcome:26} {plain(row.detail)[:300]}", soft_wrap=True)

    results = run_hardware(out, gpu=gpu, workers=workers, only=only, recorded=recorded, on_row=print_row)
    typer.echo(hardware_page(results))
    if results.findings:
        raise typer.Exit(REJECTED)


@lab.command()
def outside(
    folder: Annotated[Path, typer.Argument(help="Folder with kernels/, problems/ and sources.json.")],
    device: Annotated[Device, DEVICE] = "auto",
    workers: Annotated[int, typer.Option(min=1, help="Evaluators side by side.")] = 1,
    timeout: Annotated[float, typer.Option(help="Seconds that one run of a kernel may take.")] = 60.0,
    only: Annotated[list[str] | None, typer.Option(help="Judge the kernels of these names.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the rows that --out has; judge the rest.")] = False,
    before: Annotated[Path | None, typer.Option(help="Results of this command by an earlier evaluator.")] = None,
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Judge kernels that others wrote, and tell whose fault each rejection is.

    Exit status 1 if a kernel without a fault of its own was rejected.
    """
    from tests.lab.outside import OutsideRow, outside_page, run_outside

    check_device(device)
    console = stdout()

    def print_row(row: OutsideRow) -> None:
        color = {"falsely rejected": "red", "not judged": "yellow"}.get(row.verdict, "green")
        reason = f"{row.run.status}, {row.run.seconds:.1f} s: {plain(row.run.reason)[:120]}"
        console.print(f"[{color}]{row.verdict:16}[/] {plain(row.name):34} {reason}", soft_wrap=True)

    results = run_outside(
        folder, out, device=device, workers=workers, timeout=timeout, only=only or (), keep=keep, before=before,
        on_row=print_row,
    )  # fmt: skip
    typer.echo(outside_page(results))
    if results.false:
        raise typer.Exit(REJECTED)


@lab.command("model_runs")
def model_runs(
    folder: Annotated[Path, typer.Argument(help="Folder of the runs, their prompts and their questions.")],
    references: Annotated[list[Path] | None, typer.Argument(help="Problems; none goes on with those begun.")] = None,
    knobs: Annotated[
        list[str] | None, typer.Option("--knob", metavar="NAME=JSON", help="A knob of the model's runs; repeat it.")
    ] = None,
    expert: Annotated[bool, typer.Option("--expert/--no-expert", help="The expert's own run beside each.")] = True,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Also run every problem without this part, as a bench does; repeat it."),
    ] = None,
    answers: Annotated[Path | None, typer.Option(help="Take these answers of `model_runs_judge` first.")] = None,
    budgets: Annotated[
        list[str] | None,
        typer.Option("--budget", metavar="NAME=JSON", help="Give model's runs a budget anew; max_calls=1 ends them."),
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Tell what waits; let no run go on.")] = False,
    packed: Annotated[
        Path | None, typer.Option("--pack", help="Write what `model_runs_judge` needs (.tar.gz).")
    ] = None,
    priced_as: Annotated[str, typer.Option(help="Tell the tokens in money, at this model's price.")] = "",
    replay: Annotated[bool, typer.Option("--replay", help="Repeat every run that ended from its folder.")] = False,
    record: Annotated[
        Path | None, typer.Option(help="Write what a replay needs of each model's run that ended into this folder.")
    ] = None,
    seeds: Annotated[
        Path | None, typer.Option(help="Write the table of the models' first kernels, ended or not.")
    ] = None,
    so_far: Annotated[
        Path | None, typer.Option("--so-far", help="Write how far the runs came, stage by stage, ended or not.")
    ] = None,
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Let runs of many problems with a model go on until each needs an answer, and tell what waits.

    Answer the prompts (files), have the evaluations judged (`model_runs_judge`, or egg-graph spool FOLDER/spool), and
    give the same command again. It may be killed at any time. --out writes the table of the runs that ended.
    """
    from tests.lab.model_runs import ModelRuns, begin_model_runs, leave_out, progress_lines, read_knobs
    from tests.lab.model_runs_ahead import ask_contenders, pack, take_answers
    from tests.lab.model_runs_page import model_runs_page, write_model_runs
    from tests.lab.model_runs_so_far import read_so_far, write_so_far
    from tests.lab.model_runs_table import read_model_runs
    from tests.lab.model_seeds import read_seeds, write_seeds
    from tests.lab.recordings import record_runs

    given = read_knobs(knobs or ())
    runs = begin_model_runs(folder, references, given, expert=expert) if references else ModelRuns(folder)
    runs = leave_out(runs, without) if without else runs
    console = stdout()
    if answers is not None:
        console.print(f"{take_answers(runs, answers)} answers taken")
    progress = runs.progress() if status else asyncio.run(runs.advance(budgets=read_knobs(budgets or ())))
    if packed is not None:
        ask_contenders(runs)
    for line in progress_lines(progress):
        console.print(plain(line), soft_wrap=True)
    if packed is not None:
        pack(runs, packed)
        console.print(f"{plain(packed)}: {packed.stat().st_size / 1e6:.2f} MB", soft_wrap=True)
    if record is not None:
        console.print(f"{record_runs(runs, record)} runs recorded in {plain(record)}", soft_wrap=True)
    if seeds is not None:
        write_seeds(seeds, read_seeds(runs))
    if so_far is not None:
        write_so_far(so_far, read_so_far(runs))
    if out is not None:
        results = read_model_runs(runs, priced_as=priced_as, replay=replay)
        write_model_runs(out, results)
        typer.echo(model_runs_page(results))
    if progress.failed:
        raise typer.Exit(REJECTED)


@lab.command()
def recordings(
    files: Annotated[list[Path], typer.Argument(help="What `model_runs --record` wrote.")],
    references: Annotated[
        Path | None, typer.Option(help="Folder of the references that recordings leave out, such as KernelBench.")
    ] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Take over prompts that changed; answers and measurements stay.")
    ] = False,
) -> None:
    """Replay recorded runs of models without key or GPU; exit status 1 if one ends otherwise than it did."""
    from tests.lab.recordings import refresh_recording, replay_recording

    differing = 0
    for file in files:
        if refresh:
            refresh_recording(file, references)
        differs = replay_recording(file, references)
        differing += bool(differs)
        stdout().print(
            f"{plain(file.name)}: {f'differs in {differs}' if differs else 'ends as it did'}", soft_wrap=True
        )
    if differing:
        raise typer.Exit(REJECTED)


@lab.command("model_runs_judge")
def model_runs_judge(
    packed: Annotated[Path, typer.Argument(help="What `model_runs --pack` wrote.")],
    answers: Annotated[Path, typer.Argument(help="Answers to write (.tar.gz).")],
    device: Annotated[Device, DEVICE] = "auto",
    workers: Annotated[int, typer.Option(min=1, help="Judges on each GPU; without one, in all.")] = 1,
    timeout: Annotated[float, typer.Option(help="Seconds that one run of a candidate may take.")] = 60.0,
    profile: Annotated[bool, typer.Option("--profile/--no-profile", help="Take Nsight Compute metrics.")] = True,
    seconds: Annotated[float, typer.Option(help="Break off after this; what was judged is kept.")] = math.inf,
) -> None:
    """Judge what packed runs ask, and let copies of them go on, until each waits for a prompt or has ended."""
    from egg_graph.cli.judging_host import Host, tell_answer
    from tests.lab.model_runs_ahead import judge_ahead

    host = Host(device, workers, timeout, profile, None)
    progress = judge_ahead(packed, answers, host, seconds=seconds, on_answer=tell_answer)
    stdout().print(f"{progress.line}; {plain(answers)}: {answers.stat().st_size / 1e6:.2f} MB", soft_wrap=True)
    for run, why in progress.failed.items():
        stdout().print(f"{plain(run)} cannot go on: {plain(why)}", soft_wrap=True)


@lab.command()
def warm(
    references: Annotated[list[Path], typer.Argument(help="PyTorch references that the expert has kernels for.")],
    repeats: Annotated[int, typer.Option(min=1, help="Evaluations of each.")] = 5,
    device: Annotated[Device, DEVICE] = "auto",
    precision: Annotated[Precision, PRECISION] = "tf32",
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Tell the seconds that one more kernel costs an evaluator that knows the task."""
    from tests.lab.warm import run_warm, warm_page

    check_device(device)
    tasks = [read_task(reference, precision) for reference in references]
    typer.echo(warm_page(run_warm(tasks, out, device=device, repeats=repeats)))


@lab.command()
def briefs(out: Annotated[Path | None, OUT] = None) -> None:
    """Measure the briefs of a recorded run, in estimated tokens."""
    from tests.lab.briefs import measure_briefs, sizes_table, write_sizes

    typer.echo(sizes_table(measure_briefs() if out is None else write_sizes(out)))


@lab.command()
def joined(
    files: Annotated[list[Path], typer.Argument(help="Results of benches (.json); a later one's row counts.")],
    of: Annotated[int, typer.Option(min=1, help="How many problems there are, measured or not.")],
    out: Annotated[Path, typer.Option(help="Results: .json, and a page .md beside it.")],
) -> None:
    """Join benches that differ in nothing but their code into one table; each row names its bench."""
    from tests.lab.joined import join

    results = join(files, out, of)
    typer.echo(f"{len(results.rows)} of {of} problems from {len(results.sources)} benches: {out.with_suffix('.md')}")


@lab.command()
def figures(
    folder: Annotated[Path, typer.Argument(help="Folder with trust_*.json files.")] = Path("docs/results"),
    page: Annotated[Path | None, typer.Option(help="Page to put them on, in place of those that are there.")] = None,
) -> None:
    """Print the figures of all results files of a folder, as docs/trust.md shows them."""
    from tests.lab.figures import read_figures, rewrite

    text = read_figures(folder)
    if page is not None:
        rewrite(page, text)
    typer.echo(text)
