"""The commands of a host that judges, with a scripted judge: `python -m tests.evaluator.remote.host LOG serve ...`.

A kernel whose first word is `gated` is judged only when the file LOG.open is there.
"""

import asyncio
import sys
import time
from pathlib import Path

from egg_graph.evaluator.pool import Pool
from egg_graph.evaluator.progress import report_progress
from egg_graph.evaluator.remote.judge_queue import JudgeQueue, judge_spool
from egg_graph.evaluator.remote.spool import Spool
from egg_graph.schema import Environment, Profile
from tests.graph.scripted import ScriptedEvaluator, read

GPU = Environment(
    machine="a host with a GPU", gpu="NVIDIA H100 80GB HBM3", driver="580.159", torch="2.11", triton="3.6"
)


class ScriptedHost(ScriptedEvaluator):
    """A scripted evaluator that can stand in a pool."""

    def environment(self):
        self._write("environment")
        return GPU

    def baseline(self, task):
        report_progress("times the reference")
        time.sleep(1.5)  # as one does: whoever asks now and then hears of it
        return super().baseline(task)

    def evaluate(self, task, candidate, *, stage=None, finalist=False):
        if read(candidate)[0] == "gated":
            self._write(f"began {candidate.id}")
            while not Path(f"{self.log}.open").exists():
                time.sleep(0.02)
        evaluation = super().evaluate(task, candidate, stage=stage, finalist=finalist)
        return evaluation.model_copy(update={"environment": GPU})

    def profile(self, task, candidate, evaluation, *, stage=None):
        self._write(f"profile {candidate.id}")
        return Profile(source="ncu", kernel=f"{evaluation.resources[0].kernel} in {stage}")

    def close(self):
        pass


def scripted_pool(log, workers=2):
    """A pool of scripted evaluators that write into one log."""
    return Pool([lambda: ScriptedHost(log=log)] * workers)


def judge_batch(folder, log=None, judge="host", pool=None):
    """Do what `egg-graph spool FOLDER` does, in this process; without a pool, by a scripted one with that log."""
    pool = pool or scripted_pool(log)

    async def work():
        queue = JudgeQueue(Spool(folder, judge), pool, workers=pool.workers)
        async with queue.open():
            await judge_spool(queue)

    asyncio.run(work())


if __name__ == "__main__":
    from egg_graph.cli import app
    from egg_graph.cli.judging_host import Host

    log = Path(sys.argv.pop(1))
    Host.make_pool = lambda self: scripted_pool(log, self.workers)
    app()
