"""A graph for many runs at once on one server: each run's kernels bear its name, and one GPU's lease serves them all.

The evaluator is scripted, the lease is the real one. After `STOP_AT` calls, the one at work writes down what the
server holds, as the server itself does every ten seconds, and then keeps the GPU until the process is killed.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from egg_graph import build_egg_graph
from egg_graph.evaluator.device.lease import Lease
from egg_graph.schema import Brief, Draft
from tests.graph.scripted import ScriptedEvaluator, StatelessTeam, kernel
from tests.lab.dev_server import save_stores

SCRIPT = [kernel("bad", 1), kernel("ok", 9), kernel("ok", 8)]
STOP_AT = 110
LOG = "calls"
"""File with a line at the begin and at the end of each call of the evaluator."""
SAVED = "saved"
"""File that tells that the server may be killed."""


class NamedTeam(StatelessTeam):
    """Writes the task's name into every kernel."""

    def write(self, brief: Brief) -> Draft:
        draft = super().write(brief)
        return draft.model_copy(update={"source": f"{draft.source}# {brief.task.name}\n"})


class LeasedEvaluator(ScriptedEvaluator):
    """Takes one call at a time, of whichever run.

    Args:
        folder: folder of the lease and of the files `LOG` and `SAVED`.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.lease = Lease("the-only-gpu", folder=folder)

    def baseline(self, task: Any) -> Any:
        with self._at_work(f"{task.name} baseline"):
            return super().baseline(task)

    def evaluate(self, task: Any, candidate: Any, **options: Any) -> Any:
        kind = "finalist" if options.get("finalist") else "attempt"
        with self._at_work(f"{task.name} {kind} {candidate.id}"):
            return super().evaluate(task, candidate, **options)

    @contextmanager
    def _at_work(self, call: str) -> Iterator[None]:
        with self.lease.alone():
            self._tell(f"begin {call}")
            if not (self.folder / SAVED).exists() and len((self.folder / LOG).read_text().splitlines()) > 2 * STOP_AT:
                self._stop()
            yield
            self._tell(f"end {call}")

    def _tell(self, line: str) -> None:
        with (self.folder / LOG).open("a") as file:
            file.write(line + "\n")

    def _stop(self) -> None:
        """Save what the server holds when all other runs wait for the GPU, and wait for the end."""
        save_stores()
        (self.folder / SAVED).touch()
        time.sleep(600)


def make_graph(folder: Path) -> Any:
    """The graph that the server serves, with its files in `folder`."""
    return build_egg_graph(team=NamedTeam(SCRIPT), evaluator=LeasedEvaluator(folder), principles=())
