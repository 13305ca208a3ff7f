"""Which kernels are profiled: each that is faster than any before it of its task, once for its stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from egg_graph.evaluator.device.access import GpuAccess
from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.gate import functions_of
from egg_graph.evaluator.host.fork_server import ForkServer
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.protocol import Profiling
from egg_graph.evaluator.spending import spending_on
from egg_graph.evaluator.tools.job_files import LARGEST_CASE
from egg_graph.evaluator.tools.profile_rung import profile_candidate, skip_profile
from egg_graph.evaluator.tools.waiting_profiler import WaitingProfiler
from egg_graph.schema import Candidate, Profile, StageName


@dataclass(frozen=True)
class Fastest:
    """The fastest kernel of a task, and its profile."""

    milliseconds: float
    candidate: Candidate
    stage: StageName | None
    profile: Profile

    def is_of(self, candidate: Candidate, stage: StageName | None) -> bool:
        """Whether the profile is this kernel's, for this stage."""
        return (self.candidate.source, self.stage) == (candidate.source, stage)


@dataclass
class Profiles:
    """The profiles of one judge's kernels.

    Args:
        fork_server: forks the profiler.
        access: the judge's turns on the GPU.
        profiling: whether kernels are profiled, or finalists alone.
    """

    fork_server: ForkServer
    access: GpuAccess
    profiling: Profiling
    fastest: dict[str, Fastest] = field(default_factory=dict)
    """The fastest kernel so far, by task."""

    def profiler(self, folder: Path, stage: StageName | None) -> WaitingProfiler:
        """A profiler for the candidate in a folder, which is not started."""
        return WaitingProfiler(self.fork_server, folder, stage)

    def start_ahead(self, profiler: WaitingProfiler, problem: Problem, candidate: Candidate, finalist: bool) -> None:
        """Start the profiler if the candidate is to be profiled should it turn out to be the fastest."""
        best = self.fastest.get(problem.task.digest)
        wanted = self.profiling is True or (self.profiling == "finalists" and finalist)
        known = best is not None and best.is_of(candidate, profiler.stage)
        if wanted and not known and problem.forward_summary.compulsory_bytes <= LARGEST_CASE:
            profiler.start(functions_of(candidate.source))

    def add(
        self,
        profiler: WaitingProfiler,
        problem: Problem,
        candidate: Candidate,
        case: Callable[[], Case],
        builder: EvaluationBuilder,
        finalist: bool,
    ) -> None:
        """Profile a kernel that is right, timed and faster than any before it.

        Args:
            profiler: of the candidate; started ahead or not.
            problem: the task.
            candidate: the kernel.
            case: makes the case at full shape.
            builder: holds its timing; gets the rung and the profile.
            finalist: whether it is about to be handed over.
        """
        stage = profiler.stage
        if not self.profiling or builder.failed or builder.timing is None:
            return
        if self.profiling == "finalists" and not finalist:
            skip_profile(builder, stage, problem, "only finalists are")
            return
        milliseconds, best = builder.timing.candidate_ms, self.fastest.get(problem.task.digest)
        if best is not None and best.is_of(candidate, stage):
            builder.profile = best.profile
            builder.passed("profile", "this kernel's profile of before")
            return
        if best is not None and milliseconds >= best.milliseconds:
            skip_profile(builder, stage, problem, "an earlier kernel of this task is faster")
            return
        with spending_on("profile"):
            profile_candidate(profiler, self.access, problem, case(), builder)
        self.fastest[problem.task.digest] = Fastest(milliseconds, candidate, stage, builder.profile)
