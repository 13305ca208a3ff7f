"""Run a bench: every problem on every place there is, a journal first, results and page from it."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from egg_graph.bench.ablation import check_parts, knobs_without
from egg_graph.bench.dispatch import Dispatcher, Launch, Listener, Place, launcher
from egg_graph.bench.journal import Journal, Key, key_of
from egg_graph.bench.output import write_bench
from egg_graph.bench.page import Trajectories
from egg_graph.bench.provenance import code_digest, commit, evaluator_digest, utc_now, version
from egg_graph.bench.suite import Problem
from egg_graph.bench.values import Results, Row
from egg_graph.bench.worker import Job, Settings, load_parts
from egg_graph.context import Context, check_device, choose_target, key_of_gpu
from egg_graph.schema import BadInput, Environment
from egg_graph.team import name_models
from egg_graph.tuning import check_store

WRITE_EVERY = 30.0
"""Least seconds between two times that the results are written; the journal has every row at once."""
SHARE = 0.05
"""Largest part of the time that is spent on writing them: workers wait meanwhile."""


@dataclass
class Display:
    """What whoever watches a bench is told; each does nothing by default."""

    started: Callable[[int, int], None] = field(default=lambda total, done: None)
    """Jobs of the bench, and how many an earlier process did."""
    places: Callable[[Sequence[Place]], None] = field(default=lambda places: None)
    """What every place is at."""
    row: Callable[[Row], None] = field(default=lambda row: None)
    """A row that has just been measured."""


def run_bench(
    problems: Sequence[Problem],
    out: Path,
    *,
    suite: str = "",
    command: str = "",
    model: str | dict[str, str] | None = None,
    runs_dir: Path = Path("runs"),
    without: Sequence[str] = (),
    workers: int = 1,
    seconds: float = float("inf"),
    anew: bool = False,
    retry: bool = False,
    store_out: Path | None = None,
    evaluator: str = "",
    parts: str = "",
    display: Display | None = None,
    launch: Launch | None = None,
    **knobs: Any,
) -> Results:
    """Optimize every problem, on all GPUs at once, and write `<out>.json`, `<out>.md` and `<out>.html`.

    A bench that was killed goes on where it was: finished problems have their rows in the journal `<out>.jsonl`, and a
    run that was begun is resumed from its checkpoints, so that no finished measurement is made again.

    Args:
        problems: what to optimize.
        out: the results' path without suffix; its last part is the results' name.
        suite: what the problems were chosen from. A bench of another selection of the same suite adds to what there is.
        command: the command that was given, for the protocol.
        model: name of a chat model, or a mapping from each role to one; None for the embedded expert.
        runs_dir: where the runs' folders are made. They must stay until the bench is done.
        without: ablations to run beside the whole; names of `egg_graph.bench.ablation.PARTS`.
        workers: problems at a time on each GPU, or on the host where there is none.
        seconds: begin no further problem after this long; the same command goes on later.
        anew: forget an earlier bench of this name.
        retry: run problems once more whose run could not be made.
        store_out: store that the winner of every run's sweep is written to, such as one that is to ship.
        evaluator: who judges, if not this machine: the URL of an `egg-graph serve`, or `spool:FOLDER`.
        parts: function that makes team and evaluator in every worker, as `module:function`.
        display: who watches.
        launch: starts a worker; by default a process of this interpreter.
        **knobs: knobs of `Context` for every run.

    Returns:
        All rows so far.

    Raises:
        BadInput: if an option is wrong, the journal has other terms, the store of winners is damaged, or a file cannot
            be written.
        ModelRefused: if the model's endpoint rejects requests; nothing would work after that.
    """
    knobs, display = _without_memory(knobs), display or Display()
    context = Context(**knobs)
    if not evaluator:
        check_device(context.device)
    check_parts(without)
    if store_out is not None:
        check_store(store_out)
    if parts:
        load_parts(parts)
    settings = Settings(
        runs_dir=str(runs_dir),
        model=model,
        device=context.device,
        profile=context.profile,
        store_out="" if store_out is None else str(store_out),
        evaluator=evaluator,
        parts=parts,
    )
    gpus = () if evaluator else _gpus(context)
    places = [gpu for _ in range(workers) for gpu in gpus or (None,)]
    jobs = _jobs(problems, without, context, knobs)
    fresh = _terms(out.name, context, model, evaluator, problems).model_copy(
        update={
            "parts": parts,
            "suite": suite,
            "command": command,
            "runs_dir": str(runs_dir),
            "without": tuple(without),
            "gpus": len(gpus),
            "workers": len(places),
        }
    )
    runs_dir.mkdir(parents=True, exist_ok=True)
    with Journal(out.with_name(out.name + ".jsonl"), fresh, anew=anew, retry=retry) as journal:
        left = mixed([_resumed(job, journal) for key, job in jobs.items() if key not in journal.rows], len(places))
        resumed = frozenset(key_of(job) for job in left if job.run)
        bench = _Bench(out, runs_dir, journal, list(jobs), resumed, display)
        display.started(len(jobs), len(jobs) - len(left))
        launch = launch or launcher(out.with_name(out.name + ".log"), len(places))
        return bench.do(left, places, settings, launch, seconds)


def mixed(jobs: Sequence[Job], places: int) -> list[Job]:
    """The jobs in the order in which they are dealt: begun ones first, then, to several places, neighbours apart.

    A suite has problems of a kind side by side, and those of KernelBench's level 1 that take half of a GPU's memory
    would wait for each other. The order is the same each time; jobs of one problem stay together.
    """
    if places == 1:
        return list(jobs)
    return sorted(jobs, key=lambda job: (not job.run, hashlib.sha256(job.name.encode()).digest()))


def _without_memory(knobs: dict[str, Any]) -> dict[str, Any]:
    """The knobs of every run: none may learn from another, or the later problems would be told of the earlier ones.

    Raises:
        BadInput: if memory is asked for.
    """
    if knobs.get("memory"):
        raise BadInput("memory: a bench runs without it, for no problem may be told what another one brought")
    return {**knobs, "memory": False}


class _Bench:
    """Has the jobs done, and writes what workers tell: the journal at once, results and page now and then."""

    def __init__(
        self,
        out: Path,
        runs_dir: Path,
        journal: Journal,
        order: list[Key],
        resumed: frozenset[Key],
        display: Display,
    ) -> None:
        self.out, self.journal, self.display = out, journal, display
        self.order, self.resumed = order, resumed
        self.trajectories = Trajectories(runs_dir)
        self.next = time.monotonic() + WRITE_EVERY

    def do(
        self, jobs: Sequence[Job], gpus: Sequence[str | None], settings: Settings, launch: Launch, seconds: float
    ) -> Results:
        """Do the jobs on these places, and write the results, however that ends."""
        listener = Listener(begun=self.begun, done=self.done, changed=self.display.places)
        try:
            if jobs:
                with Dispatcher(gpus[: len(jobs)], settings, launch, listener) as dispatcher:
                    dispatcher.run(jobs, seconds)
        finally:
            results = self.write()
        return results

    def begun(self, job: Job, run: str) -> None:
        self.journal.begin(key_of(job), run)

    def done(self, place: Place, row: Row) -> None:
        row = row.model_copy(update={"resumed": key_of(row) in self.resumed})
        self.journal.finish(row)
        self.display.row(row)
        if time.monotonic() > self.next:
            self.write()

    def write(self) -> Results:
        """Write the results of all rows so far, in the order of the problems; those of earlier selections follow."""
        began = time.monotonic()
        keys = [*self.order, *_earlier(self.journal.rows, self.order)]
        rows = tuple(self.journal.rows[key] for key in keys if key in self.journal.rows)
        known = self.journal.results
        parts = dict.fromkeys([*known.without, *(key.without for key in keys if key.without)])
        problems = max(known.problems or 0, len({key.name for key in keys}))
        results = known.model_copy(update={"rows": rows, "without": tuple(parts), "problems": problems})
        write_bench(self.out, results, self.trajectories)
        now = time.monotonic()
        self.next = now + max(WRITE_EVERY, (now - began) / SHARE)
        return results


def _gpus(context: Context) -> tuple[str, ...]:
    """UUIDs of the GPUs to use; empty where kernels are judged without one."""
    from egg_graph.evaluator.device.detect import visible_gpus

    return () if context.device == "none" else visible_gpus()


def _jobs(
    problems: Sequence[Problem], without: Sequence[str], context: Context, knobs: dict[str, Any]
) -> dict[Key, Job]:
    """A job for every problem and every ablation; those of one problem follow each other."""
    # The ablations are compared with the whole, whose rows have tuned PyTorch.
    shared = {name: value for name, value in knobs.items() if name != "tuned_baseline"}
    changed = {part: {**shared, **knobs_without(part, context)} for part in without}
    found = {}
    for problem in problems:
        known = {
            "name": problem.name,
            "path": str(problem.path),
            "section": problem.section,
            "operator_class": problem.operator_class,
            "source": problem.digest,
        }
        for part, its_knobs in {"": knobs, **changed}.items():
            job = Job(**known, without=part, knobs=its_knobs)
            found[key_of(job)] = job
    return found


def _terms(
    name: str, context: Context, model: str | dict[str, str] | None, evaluator: str, problems: Sequence[Problem]
) -> Results:
    """Results without rows, with all that must be told with them."""
    environment, target = _machine(context, evaluator)
    return Results(
        name=name,
        version=version(),
        commit=commit(),
        code=code_digest(),
        evaluator=evaluator_digest(),
        started=utc_now(),
        model=name_models(model) if model else "embedded expert",
        judge=evaluator,
        precision=context.precision,
        target=target,
        settings=json.loads(json.dumps(asdict(context))),
        environment=environment,
        problems=len(problems),
    )


def _machine(context: Context, evaluator: str) -> tuple[Environment, str]:
    """The machine that judges, and the name of the GPU that is written for."""
    if evaluator:
        from egg_graph.evaluator.remote.by_name import evaluator_by_name

        found = evaluator_by_name(evaluator).environment()
        key = key_of_gpu(found.gpu, context.knowledge_dir) if context.target == "auto" else context.target
        return found, choose_target(key, context.knowledge_dir).name
    from egg_graph.evaluator import environment

    target = choose_target(context.target, context.knowledge_dir)
    return environment(use_gpu=context.device != "none"), target.name


def _earlier(rows: Iterable[Key], order: Sequence[Key]) -> list[Key]:
    """The rows of what is not chosen now; of a reference that was edited only the last one."""
    chosen = {(key.name, key.without) for key in order}
    last = {(key.name, key.without): key for key in rows}
    return [key for about, key in last.items() if about not in chosen]


def _resumed(job: Job, journal: Journal) -> Job:
    return job.model_copy(update={"run": journal.begun.get(key_of(job), "")})
