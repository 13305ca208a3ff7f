"""The graph that `server_runs` serves: the whole of it, with a real evaluator for each run and a log of their calls.

When the file `STOP` appears, calls give no answer any more and none begins. When the file `DIE` appears, what the
server holds is written down, and the process kills itself while the candidates are at work.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from egg_graph import build_egg_graph
from egg_graph.context import Device
from egg_graph.evaluator import LocalEvaluator
from egg_graph.evaluator.cancellation import AsynchronousTwins
from egg_graph.schema import Baseline, Candidate, Evaluation, KernelTask, StageName, Trial
from tests.lab.dev_server import save_stores

STOP = "stop"
"""File that asks the evaluators to give no answer any more."""
DIE = "die"
"""File that asks the server to save and to die."""
CALLS = "calls.jsonl"
"""File with a line at the begin and at the end of each call of the evaluator."""
POLL = 0.05
"""Seconds between two looks for the file `STOP`."""


class LoggedEvaluators(AsynchronousTwins):
    """An evaluator for each task, so that the judges of many runs share the GPU by its lease alone.

    Args:
        folder: where the files `STOP` and `CALLS` are.
        device: where to judge.
    """

    def __init__(self, folder: Path, device: Device) -> None:
        self.folder = folder
        self.device = device
        self._lock = threading.Lock()
        self._evaluators: dict[str, LocalEvaluator] = {}

    def baseline(self, task: KernelTask) -> Baseline:
        """See `Evaluator.baseline`."""
        return self._logged(task, "baseline", "", lambda evaluator: evaluator.baseline(task))

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation:
        """See `Evaluator.evaluate`."""
        kind = "finalist" if finalist else "attempt"
        return self._logged(
            task, kind, candidate.id, lambda one: one.evaluate(task, candidate, stage=stage, finalist=finalist)
        )

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        """See `Evaluator.screen`."""
        names = " ".join(candidate.id for candidate in candidates)
        return self._logged(task, "screen", names, lambda evaluator: evaluator.screen(task, candidates))

    def _logged(self, task: KernelTask, kind: str, candidate: str, ask: Any) -> Any:
        call = {"task": task.digest, "name": task.name, "kind": kind, "candidate": candidate}
        self._wait_if_stopped(call)
        self._tell({"event": "begin", **call})
        try:
            answer = ask(self._evaluator(task))
        except BaseException:
            self._tell({"event": "failed", **call})
            raise
        self._wait_if_stopped({})
        self._tell({"event": "end", **call})
        return answer

    def _evaluator(self, task: KernelTask) -> LocalEvaluator:
        with self._lock:
            return self._evaluators.setdefault(task.digest, LocalEvaluator(device=self.device))

    def _wait_if_stopped(self, call: dict[str, str]) -> None:
        """Give no answer once the server is to die, since it would be lost with it; tell the call that is held back."""
        if call and (self.folder / STOP).exists():
            self._tell({"event": "held", **call})
        while (self.folder / STOP).exists():
            time.sleep(POLL)

    def _tell(self, line: dict[str, str]) -> None:
        with (self.folder / CALLS).open("a") as file:
            file.write(json.dumps(line) + "\n")


def die_when_asked(folder: Path) -> None:
    """Wait for the file `DIE`; then save what the server holds, and kill this process."""
    while not (folder / DIE).exists():
        time.sleep(POLL)
    save_stores()
    os.kill(os.getpid(), signal.SIGKILL)


def make_graph(folder: Path, device: Device) -> Any:
    """The graph that the server serves, with its files in `folder`."""
    threading.Thread(target=die_when_asked, args=(folder,), daemon=True).start()
    return build_egg_graph(evaluator=LoggedEvaluators(folder, device))
