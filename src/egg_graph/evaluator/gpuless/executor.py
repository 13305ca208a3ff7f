"""Have one process of the guarded interpreter make the calls of one shape.

In that process the candidate is called as a module in service is: other content at the same addresses, weights loaded
anew, inputs of other families, further uses (`problem.plan`), and at last with its Triton kernels doing nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from egg_graph.evaluator.gpuless.job_runner import INTERPRETER_THREADS, JobRunner
from egg_graph.evaluator.gpuless.process_outcome import ProcessOutcome
from egg_graph.evaluator.gpuless.process_reader import ProcessReader
from egg_graph.evaluator.host.fork_server import ChildExit, Limits
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.plan import Call
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.wire import exchange
from egg_graph.schema import Candidate

OPTIONAL_SHARE = 8 / 60
"""Try no further input family after this share of the time that a run of the candidate may take, as processor time."""


@dataclass(frozen=True)
class InterpreterExecutor:
    """Makes calls of one candidate in a process of the guarded interpreter.

    Args:
        jobs: runs the process.
        problem: the task under judgement.
        candidate: the candidate to be judged.
        pool: a thread of it waits for the process.
    """

    jobs: JobRunner
    problem: Problem
    candidate: Candidate
    pool: ThreadPoolExecutor

    def start(
        self, calls: Sequence[Call], seconds: float, whole_steps: int | None = None, *, zero_lanes: bool = False
    ) -> CallsAtWork:
        """Have one process make the calls.

        Args:
            calls: as planned.
            seconds: time limit of each.
            whole_steps: accesses and loop turns after which a sample stands for the programs that are left.
            zero_lanes: lanes that a load masks off without `other` are 0, and not undefined.
        """
        with ExitStack() as stack:
            folder = stack.enter_context(self.jobs.job_folder(self.candidate))
            payload = {
                **self.jobs.common(self.problem.task),
                "arguments": self.problem.arguments(calls[0].case.overrides),
                "calls": _written(calls, folder),
                "call_seconds": seconds,
                "optional_seconds": self.jobs.timeout * OPTIONAL_SHARE,
                "whole_steps": whole_steps,
                "zero_lanes": zero_lanes,
            }
            asked = len([call for call in calls if call.patience is None])
            limits = Limits(wall_seconds=seconds * asked, threads=INTERPRETER_THREADS)
            end = self.pool.submit(
                self.jobs.interpreting.run, "egg_graph.evaluator.worker.jobs:interpret", payload, folder, limits
            )
            return CallsAtWork(self, calls, seconds, whole_steps, zero_lanes, folder, end, stack.pop_all())


@dataclass(frozen=True)
class CallsAtWork:
    """Calls that a process of the interpreter makes while others are judged.

    Args:
        executor: started it.
        calls, seconds, whole_steps, zero_lanes: as `InterpreterExecutor.start` takes them.
        folder: of the process.
        end: how it will have ended.
        after: what is to be done when the answers are judged: deletes the folder.
    """

    executor: InterpreterExecutor
    calls: Sequence[Call]
    seconds: float
    whole_steps: int | None
    zero_lanes: bool
    folder: Path
    end: Future[ChildExit]
    after: ExitStack

    def judge(self) -> ProcessOutcome:
        """Wait until the process has ended, and judge what it left."""
        of = self.executor
        with self.after:
            return ProcessReader(
                of.problem, of.candidate, self.calls, self.folder, self.end.result(), of.jobs.timeout
            ).read()

    def again(self, *, zero_lanes: bool) -> CallsAtWork:
        """Have another process make the same calls."""
        return self.executor.start(self.calls, self.seconds, self.whole_steps, zero_lanes=zero_lanes)

    def drop(self) -> None:
        """Wait until the process has ended; its answers are not wanted."""
        with self.after:
            self.end.result()


def _written(calls: Sequence[Call], folder: Path) -> list[dict[str, Any]]:
    """Write inputs and weights into the folder; the calls as `worker.jobs.interpret` takes them."""
    entries: list[dict[str, Any]] = []
    loaded: dict[int, Case] = {}
    for index, call in enumerate(calls):
        if call.tuning:
            entries.append({**entries[0], "tuning": True, "patience": call.patience})
            continue
        exchange.save(folder, f"inputs_{index}", call.case.inputs)
        weights = None
        last = loaded.get(call.manner.module)
        if last is None or call.case.state is not last.state or last.updates or call.case is calls[0].case:
            file = f"state_{index}"
            weights = {"file": file, "names": list(call.case.state), "in_place": call.manner.in_place}
            exchange.save(folder, file, list(call.case.state.values()))
        loaded[call.manner.module] = call.case
        entries.append(
            {
                "inputs": f"inputs_{index}",
                "weights": weights,
                "reuse": call.placement == "last",
                "silent": call.silent,
                "tuning": False,
                "patience": call.patience,
                **asdict(call.manner),
                "outputs": [
                    {"shape": list(leaf.expected.shape), "dtype": str(leaf.dtype).removeprefix("torch.")}
                    for leaf in call.case.leaves
                ],
                "seed": call.case.forward_seed,
            }
        )
    return entries
