"""What one role sees of the run."""

from egg_graph.schema.answers import Analysis, Attempt, Diagnosis, Principle, StageSummary, Sweep
from egg_graph.schema.base import Value
from egg_graph.schema.candidate import Candidate, Mode, StageName
from egg_graph.schema.evaluation import Baseline, Evaluation
from egg_graph.schema.task import KernelTask


class Brief(Value):
    """What a role answers from: inter-stage (best, summaries) and intra-stage (attempts, analysis, ...)."""

    task: KernelTask
    baseline: Baseline
    stage: StageName
    objective: str
    """What the stage is to achieve, in words."""
    ranked_by: str = ""
    """What makes one kernel better than another in this run, in words."""
    metrics: tuple[str, ...] = ()
    """Nsight Compute metrics that matter in this stage (paper, App. F)."""
    mode: Mode
    kernel: Candidate | None = None
    """The broken kernel in repair mode, the kernel to improve in optimize mode, None in seed mode."""
    evaluation: Evaluation | None = None
    """Evaluation of `kernel`."""
    best: Candidate | None = None
    """The best kernel so far."""
    best_evaluation: Evaluation | None = None
    """Evaluation of `best`."""
    analysis: Analysis | None = None
    diagnosis: Diagnosis | None = None
    summaries: tuple[StageSummary, ...] = ()
    """Summaries of the finished stages."""
    sweeps: tuple[Sweep, ...] = ()
    """What the tuner of each stage tried, in order."""
    attempts: tuple[Attempt, ...] = ()
    """Attempts of this stage, in order."""
    principles: tuple[Principle, ...] = ()
    guidance: dict[str, str] = {}
    """What is known about kernels for the reference's operators: playbook name -> a few lines."""
    contender: Attempt | None = None
    """The embedded expert's kernel, judged before the team was asked: the team may start from it and must beat it."""

    @property
    def attempt(self) -> int:
        """Number, in the whole run, of the attempt that the answer leads to."""
        return 1 + sum(summary.attempts for summary in self.summaries) + len(self.attempts)

    @property
    def dead_ends(self) -> tuple[str, ...]:
        """What this stage tried without improving the best kernel, one line each, so that it is not tried again.

        What no clock could decide is none of them.
        """
        return tuple(
            f"attempt {a.number} ({a.candidate.mode}): {a.candidate.plan or 'no plan'} "
            f"-> {a.evaluation.status}: {a.evaluation.reason}"
            for a in self.attempts
            if not a.improved and not a.undecided
        )
