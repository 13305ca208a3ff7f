"""A finalist under compute-sanitizer, beside the judge's own work on it: the tools take seconds, mostly to start."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager

from egg_graph.evaluator.device.access import GpuAccess, give_way
from egg_graph.evaluator.device.beside import Joining
from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.gate import functions_of
from egg_graph.evaluator.gpuless.ladder import GpulessLadder
from egg_graph.evaluator.host.fork_server import GLANCE
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.spending import spending_on
from egg_graph.evaluator.tools.sanitizer_rung import SanitizerJob, prepare_sanitizer, run_sanitizer, skip_sanitizer
from egg_graph.schema import Candidate


class Sanitizing:
    """One finalist's sanitizer: `begin` it, and `conclude` with its rung.

    Args:
        base: forks the tools' job.
        access: the judge's turns; the tools run while the judge shares the GPU, and are stopped while it does not.
        joining: stops them.
        held: holds their folder.
    """

    def __init__(self, base: GpulessLadder, access: GpuAccess, joining: Joining, held: ExitStack) -> None:
        self._base, self._access, self._joining, self._held = base, access, joining, held
        self._begun: Future[EvaluationBuilder] | str = "it was not begun"

    def begin(self, problem: Problem, candidate: Candidate) -> None:
        """Start the tools on a candidate that is right at reduced shapes, inside `GpuAccess.computing`."""
        folder = self._held.enter_context(self._base.jobs.job_folder(candidate))
        self._held.callback(self.end)  # before the folder goes
        job = prepare_sanitizer(problem, folder, functions_of(candidate.source))
        self._begun = self._base.pool.submit(self._run, job) if isinstance(job, SanitizerJob) else job

    def _run(self, job: SanitizerJob) -> EvaluationBuilder:
        return run_sanitizer(self._base.jobs.compiling, job, self._joining)

    def end(self) -> None:
        """Return once nothing of it runs, given up or done."""
        if not isinstance(self._begun, str):
            self._begun.cancel()
            wait([self._begun])

    def conclude(self, builder: EvaluationBuilder) -> None:
        """Wait for the tools' end, and add what they told."""
        if isinstance(self._begun, str):
            skip_sanitizer(builder, self._begun)
            return
        with self._access.computing(), spending_on("sanitizer"):
            while wait([self._begun], GLANCE).not_done:
                give_way()
            builder.absorb(self._begun.result())


@contextmanager
def sanitizing(base: GpulessLadder, access: GpuAccess) -> Iterator[Sanitizing]:
    """A finalist's sanitizer, which does not outlive the block.

    Args:
        base, access: as for `Sanitizing`.
    """
    with ExitStack() as held, access.beside.joining() as joining:
        begun = Sanitizing(base, access, joining, held)
        yield begun
