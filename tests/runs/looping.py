"""`egg-graph` as a process of its own, with a real evaluator without a GPU and a kernel that never returns.

Usage: python -m tests.runs.looping CALLS WORD...: CALLS is a file with a line for each call of a role; WORD... are the
words of the command line.
"""

import functools
import sys
from pathlib import Path

import egg_graph
from egg_graph.cli import app
from egg_graph.evaluator import LocalEvaluator
from tests.graph.scripted import StatelessTeam
from tests.paths import read_source


class LoggedTeam(StatelessTeam):
    """Writes a kernel that never returns, and each call into a file."""

    def __init__(self, log: Path) -> None:
        super().__init__([read_source("faults/infinite_loop.py")])
        self.log = log

    def write(self, brief):
        self._called("write")
        return super().write(brief)

    def debug(self, brief):
        self._called("debug")
        return super().debug(brief)

    def _called(self, role: str) -> None:
        with self.log.open("a") as file:
            file.write(f"{role}\n")


if __name__ == "__main__":
    parts = {"team": LoggedTeam(Path(sys.argv.pop(1))), "evaluator": LocalEvaluator(device="none"), "principles": ()}
    egg_graph.optimize = functools.partial(egg_graph.optimize, **parts)
    egg_graph.resume = functools.partial(egg_graph.resume, **parts)
    app()
