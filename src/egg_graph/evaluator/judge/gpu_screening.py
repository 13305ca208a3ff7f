"""Screen many configurations of one kernel on a GPU: a few timed calls of each, and ever more of the better half.

A configuration, compiled ahead (`compile_ahead`), is pruned by its resources or run once, checked at full shape, and
timed in one burst. As many as fit stay ready at once, each in its process; when all have been timed, the better half is
timed again with twice as many bursts, in turns, and so on until two are left: so the last ones are compared under the
same clocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from egg_graph.evaluator.aot.pruning import any_pruned
from egg_graph.evaluator.device.access import give_way
from egg_graph.evaluator.gpu.launch_resources import launch_resources
from egg_graph.evaluator.gpu.timing.statistics import median
from egg_graph.evaluator.gpu.worker_session import CandidateFailed, WorkerSession
from egg_graph.evaluator.host.fork_server import GLANCE
from egg_graph.evaluator.judge.compile_ahead import Configurations
from egg_graph.evaluator.judge.screening import rejected_trial
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.memory_plan import GIB, MemoryPlan
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.progress import heard_here, report_progress
from egg_graph.evaluator.spending import spending_on
from egg_graph.schema import Candidate, Finding, KernelResources, Trial

if TYPE_CHECKING:
    from egg_graph.evaluator.gpu.ladder import GpuLadder

T = TypeVar("T")
TOGETHER = 8
"""Configurations that start side by side, while other judges compute; they are checked and timed one by one, and nobody
else uses the GPU while one is timed."""
READY, FEWEST_READY = 12, 4
"""Most configurations that are ready at once; where more are to come, a third of them stays. As many as `FEWEST_READY`
wait until other judges leave room for them."""
MEMORY_PART = 0.4
"""Keep as many configurations ready at once as fit in this fraction of the GPU's memory."""
ROOM_PART = 0.5
"""Of what other judges have not reserved, take this part for more than `FEWEST_READY`."""
LONGEST_SECONDS = 600.0
"""Start no further configurations after this time [s]; a process of the first ones may live for 900 s."""
BURST, LEAST_BURST = 12, 2
"""Timed calls of a burst, and of a burst of slow calls, which has no warm-up."""
BURST_SECONDS = 0.06
"""A burst has fewer calls where they would take longer than this [s]."""
STAYED, LEFT = 0.0, 0.5
"""First part of the merit of configurations that were timed to the end, and of those that left before."""


@dataclass
class Entrant:
    """A configuration that is compiled, and waits in its process for the next burst."""

    number: int
    """Its place in the sweep, from 0."""
    candidate: Candidate
    session: WorkerSession
    resources: tuple[KernelResources, ...] = ()
    queue_ms: float = 0.0
    """Time that a forward takes to queue [ms]."""
    calls: int = BURST
    """Timed calls of a burst."""
    times: list[float] = field(default_factory=list)
    """All timed calls [ms]."""

    @property
    def milliseconds(self) -> float:
        """Median of all timed calls [ms]."""
        return median(self.times)

    def time_burst(self) -> None:
        """Time one burst. Raises CandidateFailed as `WorkerSession.ask`."""
        from egg_graph.evaluator.device.stream_timer import WARMUP_CALLS

        warmup_calls = WARMUP_CALLS if self.calls > LEAST_BURST else 0
        block = self.session.ask("time_series", calls=self.calls, warmup_calls=warmup_calls, queue_ms=self.queue_ms)
        times = block.get("event_ms")
        if not isinstance(times, list) or not times:
            raise _unreadable("of its times")
        self.times += [_positive(ms) for ms in times]


@dataclass(frozen=True)
class Pruned:
    """A configuration that was compiled and not run."""

    resources: tuple[KernelResources, ...]
    why: str


def screen_on_gpu(ladder: GpuLadder, problem: Problem, configurations: Configurations, capacity: int) -> list[Trial]:
    """Prune, check each once at full shape, and time them by successive halving.

    Args:
        ladder: opens processes.
        problem: the task.
        configurations: compiled ones; the first is the kernel's own, which is never pruned.
        capacity: configurations that may be ready at once.
    """
    from egg_graph.evaluator.gpu.answers import arena, load, share_inputs

    with ExitStack() as stack:
        shared = stack.enter_context(arena())
        with ladder.access.computing():
            case = ladder.compiled_baseline(problem).case
            with case.held():
                _, forms = share_inputs(case, shared)
            state = load(case, problem, shared)
        screening = GpuScreening(ladder, problem, case, configurations, forms, state)
        stack.callback(screening.close)
        screening.sweep(capacity)
    return [trial for _, trial in sorted(screening.trials.items())]


def ready_at_once(plan: MemoryPlan, room: float, configurations: int) -> int:
    """How many configurations may be ready at once: `FEWEST_READY`, and as many more as fit.

    Args:
        plan: the task's.
        room: GPU memory that other judges have not reserved [bytes].
        configurations: of the whole sweep.
    """
    most = min(READY, configurations, int(MEMORY_PART * plan.capacity / _bytes_of_one(plan)))
    fitting = (ROOM_PART * room - bytes_of_sweep(plan, 0)) / _bytes_of_one(plan)
    return max(1, int(min(most, max(fitting, FEWEST_READY))))


def bytes_of_sweep(plan: MemoryPlan, ready: int) -> float:
    """GPU memory of a sweep with so many configurations ready at once, the judge's part included [bytes].

    One configuration at a time is checked, on copies of the inputs.
    """
    return plan.least_bytes + plan.compulsory_bytes + ready * _bytes_of_one(plan)


def _bytes_of_one(plan: MemoryPlan) -> float:
    """GPU memory of one configuration: the answer, what is computed on the way, and the driver's part [bytes].

    The inputs are the same memory for all.
    """
    return plan.compulsory_bytes + GIB


@dataclass
class GpuScreening:
    """One sweep.

    Args:
        ladder: opens processes.
        problem: the task.
        case: its full shape.
        configurations: compiled ones, the kernel's own first.
        forms: of the inputs, in memory that every process can open.
        state: arguments of the worker's `load`.
    """

    ladder: GpuLadder
    problem: Problem
    case: Case
    configurations: Configurations
    forms: list[Any]
    state: dict[str, Any]
    trials: dict[int, Trial] = field(default_factory=dict)
    """By number of the configuration."""
    sessions: list[WorkerSession] = field(default_factory=list)
    may_start: Event = field(default_factory=Event)
    """Cleared while others measure: no further process starts then."""
    pruning: bool = True
    """Whether configurations may be pruned: not where the kernel's own would be, or is not known."""

    def __post_init__(self) -> None:
        self.may_start.set()

    def sweep(self, capacity: int) -> None:
        """Fill `trials`.

        Args:
            capacity: configurations that may be ready at once. Where it is 1, each is timed in one burst, and none
                again.
        """
        ready: list[Entrant] = []
        same_as = {number: self.configurations.same_as(number) for number in range(len(self.candidates))}
        waiting, began = [number for number, first in same_as.items() if number == first], time.monotonic()
        while waiting:
            if time.monotonic() - began > LONGEST_SECONDS:
                self._leave_out(waiting)
                break
            if capacity - len(ready) < min(TOGETHER, len(waiting)):
                stay = 0 if capacity == 1 else max(1, capacity // 3)
                ready = self._keep(ready, stay, STAYED if capacity == 1 else LEFT)
            numbers = waiting[: min(TOGETHER, capacity - len(ready))]
            ready += self._enter(numbers)
            waiting = waiting[len(numbers) :]
        self._halve(ready)
        for number, first in same_as.items():
            if number != first:
                self._settle(number, self._trial_of_the_same(number, first))

    def _halve(self, ready: list[Entrant]) -> None:
        """Time the better half again and again, until two are left."""
        bursts = 1
        while len(ready) > 1:
            ready = self._keep(ready, max(2, (len(ready) + 1) // 2), LEFT)
            bursts *= 2
            ready = self._time(ready, bursts)
            if len(ready) <= 2:
                break
        for entrant in ready:
            self._settle(entrant.number, _timed_trial(entrant, STAYED))

    def _trial_of_the_same(self, number: int, first: int) -> Trial:
        """The trial of a configuration that is the same compiled program as an earlier one, which was tried."""
        tried = self.trials[first]
        reason = f"not run: the same compiled program as configuration {first + 1} ({tried.reason})"
        return tried.model_copy(update={"config": self.candidates[number].config, "reason": reason[:400]})

    def _leave_out(self, numbers: Sequence[int]) -> None:
        """Tell of configurations that there was no time for."""
        for number in numbers:
            reason = f"not compiled: the sweep had taken {LONGEST_SECONDS:.0f} s before its turn"
            self._settle(number, Trial(config=self.candidates[number].config, status="pruned", reason=reason))

    def close(self) -> None:
        """End all processes at once: the driver's clearing up after one would disturb the timing of the next."""
        self._close(self.sessions)

    def _close(self, sessions: Sequence[WorkerSession]) -> None:
        """End processes side by side, while nobody measures."""
        with self.ladder.access.computing():
            list(self.ladder.base.pool.map(WorkerSession.close, sessions))

    @property
    def candidates(self) -> Sequence[Candidate]:
        """The configurations, as candidates."""
        return self.configurations.candidates

    # -------------------------------------------------------------------------------------------- one configuration

    def _enter(self, numbers: Sequence[int]) -> list[Entrant]:
        """Start some configurations side by side, then check and time each once; those that pass."""
        rejected = self.configurations.rejected
        with self.ladder.access.computing():
            with spending_on("compile"):
                started = self._start_all([number for number in numbers if rejected[number] is None])
            entered = [self._checked(rejected[number] or started[number]) for number in numbers]
        with self.ladder.access.measuring():
            entered = [self._timed_once(entrant) for entrant in entered]
        for number, entrant in zip(numbers, entered, strict=True):
            if isinstance(entrant, Trial):
                self._settle(number, entrant)
        return [entrant for entrant in entered if isinstance(entrant, Entrant)]

    def _start_all(self, numbers: Sequence[int]) -> dict[int, Entrant | Trial]:
        """Start a process for each and call its forward once; a Trial of those that fail or are pruned."""

        def start(number: int) -> Entrant | Trial | Pruned:
            return self._start(number, prune=self.pruning and number > 0)

        started = dict(zip(numbers, self._side_by_side(start, numbers), strict=True))
        if 0 in started:
            own = started[0]
            self.pruning = isinstance(own, Entrant) and not any_pruned(self.problem.task.target, own.resources)
        unpruned = [] if self.pruning else [n for n, one in started.items() if isinstance(one, Pruned)]
        started |= dict(zip(unpruned, self._side_by_side(start, unpruned), strict=True))
        return {n: _pruned_trial(self.candidates[n], e) if isinstance(e, Pruned) else e for n, e in started.items()}

    def _side_by_side(self, start: Callable[[int], T], numbers: Sequence[int]) -> list[T]:
        """Call `start` for each number in threads; a measurement that waits for the GPU goes first meanwhile."""
        futures = [self.ladder.base.pool.submit(heard_here(start), number) for number in numbers]
        while wait(futures, GLANCE).not_done:
            give_way(self._paused)
        return [future.result() for future in futures]

    @contextmanager
    def _paused(self) -> Iterator[None]:
        """Stop all processes for the block, and start none."""
        self.may_start.clear()
        try:
            with ExitStack() as stack:
                for session in self.sessions:
                    stack.enter_context(session.paused())
                yield
        finally:
            self.may_start.set()

    def _start(self, number: int, *, prune: bool) -> Entrant | Trial | Pruned:
        """Start and warm one process.

        A candidate with a tuner of its own is not pruned: that tuner may launch what it does not choose.
        """
        report_progress("starts", number=number)
        candidate, target = self.candidates[number], self.problem.task.target
        own_tuner = "autotune" in candidate.source
        hardware = target.model_dump(mode="json") if prune and not own_tuner else None
        try:
            self.may_start.wait()
            session = self.ladder.open(self.configurations.folders[number], watched=False)
            self.sessions.append(session)
            session.ask("load", **self.state)
            session.ask("inputs", inputs=self.forms, seed=self.case.forward_seed)
            first = session.ask("first_forward", hardware=hardware)
            resources = () if own_tuner else self._resources(first)
            if hardware is not None and first.get("pruned"):
                session.close()
                return Pruned(resources, str(first["pruned"]))
            session.ask("warm_up", seconds=0.0)
        except CandidateFailed as failure:
            return rejected_trial(candidate, [failure.finding])
        return Entrant(number, candidate, session, resources)

    def _resources(self, first: dict[str, Any]) -> tuple[KernelResources, ...]:
        """The resources that a process tells of.

        Raises:
            CandidateFailed: if they cannot be read.
        """
        try:
            return tuple(launch_resources(entry, self.problem.task) for entry in first["launches"])
        except (KeyError, TypeError, ValueError) as error:
            raise _unreadable(f"of its launches: {error}") from error

    def _checked(self, entrant: Entrant | Trial) -> Entrant | Trial:
        """Check the answer of a configuration once; the trial of one that failed before stays."""
        from egg_graph.evaluator.gpu.executor import GpuExecutor
        from egg_graph.evaluator.problem.plan import loaded_group

        if isinstance(entrant, Trial):
            return entrant
        try:
            with spending_on("correctness"):
                executor = GpuExecutor(entrant.session, self.problem, self.ladder.machine)
                outcome = executor.carry_out(loaded_group(self.case))
        except CandidateFailed as failure:
            return rejected_trial(entrant.candidate, [failure.finding], entrant.resources)
        if outcome.failed:
            return rejected_trial(entrant.candidate, outcome.findings, entrant.resources)
        return entrant

    def _timed_once(self, entrant: Entrant | Trial) -> Entrant | Trial:
        """Time one burst of a right configuration, while the other processes are idle."""
        if isinstance(entrant, Trial):
            return entrant
        session = entrant.session
        try:
            with spending_on("timing"):
                session.ask("inputs", inputs=self.forms, seed=self.case.forward_seed)
                latency = session.ask("warm_up", seconds=0.05)
                entrant.queue_ms = _positive(latency.get("queue_ms"))
                fitting = int(1e3 * BURST_SECONDS / _positive(latency.get("wall_ms")))
                entrant.calls = max(LEAST_BURST, min(BURST, fitting))
                entrant.time_burst()
        except CandidateFailed as failure:
            return rejected_trial(entrant.candidate, [failure.finding], entrant.resources)
        return entrant

    # ---------------------------------------------------------------------------------------------- several of them

    def _time(self, entrants: list[Entrant], bursts: int) -> list[Entrant]:
        """Time some bursts of each, in turns, forth and back; those that did not fail meanwhile."""
        running = list(entrants)
        with self.ladder.access.measuring(), spending_on("timing"):
            for turn in range(bursts):
                for entrant in running[:: -1 if turn % 2 else 1]:
                    try:
                        entrant.time_burst()
                    except CandidateFailed as failure:
                        trial = rejected_trial(entrant.candidate, [failure.finding], entrant.resources)
                        self._settle(entrant.number, trial)
                        running.remove(entrant)
        return running

    def _keep(self, entrants: list[Entrant], count: int, rank: float) -> list[Entrant]:
        """The fastest ones, in the order of the sweep; the others leave, with this rank, and their processes end."""
        fastest = sorted(entrants, key=lambda entrant: entrant.milliseconds)
        leaving = fastest[count:]
        for entrant in leaving:
            self._settle(entrant.number, _timed_trial(entrant, rank))
        self._close([entrant.session for entrant in leaving])
        return sorted(fastest[:count], key=lambda entrant: entrant.number)

    def _settle(self, number: int, trial: Trial) -> None:
        self.trials[number] = trial
        report_progress(number=number, trial=trial)


def _timed_trial(entrant: Entrant, rank: float) -> Trial:
    """The trial of a right configuration; `rank` is the first part of its merit."""
    left = "; not timed again: others were faster" if rank == LEFT else ""
    return Trial(
        config=entrant.candidate.config,
        status="correct",
        reason=f"right on one seed at full shape; median of {len(entrant.times)} calls{left}",
        milliseconds=entrant.milliseconds,
        resources=entrant.resources,
        merit=(rank, entrant.milliseconds),
    )


def _pruned_trial(candidate: Candidate, pruned: Pruned) -> Trial:
    reason = f"not run: {pruned.why}; the kernel's own configuration keeps within that"
    return Trial(config=candidate.config, status="pruned", reason=reason[:400], resources=pruned.resources)


def _positive(told: Any) -> float:
    """A time that a process told [ms].

    Raises:
        CandidateFailed: if it is no positive number.
    """
    if not isinstance(told, int | float) or not 0 < told < 1e8:
        raise _unreadable(f"of a time: {told!r}"[:100])
    return float(told)


def _unreadable(what: str) -> CandidateFailed:
    return CandidateFailed(Finding(kind="exited", message=f"the process gave no readable answer {what}"), "")
