"""`egg-graph` as a process of its own, with a scripted team and evaluator in place of the real ones.

Usage: python -m tests.runs.child LOG GATE WORD...: LOG is the evaluator's log. While the file GATE is absent, the first
evaluation waits for it, and LOG's neighbour `at_gate` tells that it does. WORD... are the words of the command line.
"""

import functools
import sys
import time
from pathlib import Path

import egg_graph
from egg_graph.cli import app
from tests.graph.scripted import ScriptedEvaluator, StatelessTeam
from tests.runs.harness import SCRIPT


class Gated(ScriptedEvaluator):
    def __init__(self, log: Path, gate: Path) -> None:
        super().__init__(log=log)
        self.gate = gate

    def evaluate(self, task, candidate, **options):
        if not self.gate.exists():
            self.log.with_name("at_gate").touch()
            while not self.gate.exists():
                time.sleep(0.02)
        return super().evaluate(task, candidate, **options)


if __name__ == "__main__":
    log, gate = Path(sys.argv.pop(1)), Path(sys.argv.pop(1))
    parts = {"team": StatelessTeam(SCRIPT), "evaluator": Gated(log, gate), "principles": ()}
    egg_graph.optimize = functools.partial(egg_graph.optimize, **parts)
    egg_graph.resume = functools.partial(egg_graph.resume, **parts)
    app()
