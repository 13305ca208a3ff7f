"""What one agent sees of the run: the whole picture, cut for its role."""

from egg_graph.schema.answers import Analysis, Attempt, Diagnosis, Principle, StageSummary
from egg_graph.schema.base import Value
from egg_graph.schema.candidate import Candidate, Mode, StageName
from egg_graph.schema.evaluation import Baseline, Evaluation
from egg_graph.schema.task import KernelTask


class Brief(Value):
    """The context handed to an agent: inter-stage (best, summaries) and intra-stage (attempts, analysis, diagnosis)."""

    task: KernelTask
    baseline: Baseline
    stage: StageName
    objective: str
    metrics: tuple[str, ...] = ()
    """Nsight Compute metrics that matter in this stage (paper, App. F)."""
    mode: Mode
    kernel: Candidate | None = None
    """The kernel at hand: broken in repair mode, the one to improve in optimize mode, None in seed mode."""
    evaluation: Evaluation | None = None
    """Of `kernel`."""
    best: Candidate | None = None
    best_evaluation: Evaluation | None = None
    analysis: Analysis | None = None
    diagnosis: Diagnosis | None = None
    summaries: tuple[StageSummary, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    principles: tuple[Principle, ...] = ()
    guidance: dict[str, str] = {}
    """What is known about kernels for the reference's operators: playbook name -> a few lines."""
    seed_hint: Candidate | None = None
    """A kernel the coder may start from or must beat (the embedded expert's, say)."""

    @property
    def dead_ends(self) -> tuple[str, ...]:
        """What this stage already tried that failed, one line each, so that it is not walked twice."""
        return tuple(
            f"attempt {a.number} ({a.candidate.mode}): {a.candidate.plan or 'no plan'} "
            f"-> {a.evaluation.status}: {a.evaluation.reason}"
            for a in self.attempts
            if not a.improved
        )
