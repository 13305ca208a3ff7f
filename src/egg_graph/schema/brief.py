"""What one role sees of the run."""

from typing import Literal

from egg_graph.schema.answers import Analysis, Attempt, Diagnosis, Principle, StageSummary, Sweep
from egg_graph.schema.base import Value
from egg_graph.schema.candidate import Candidate, Mode, StageName
from egg_graph.schema.chain import Chain
from egg_graph.schema.evaluation import Baseline, Evaluation
from egg_graph.schema.lesson import Lesson
from egg_graph.schema.remaining import Remaining
from egg_graph.schema.scores import PrincipleScore
from egg_graph.schema.task import KernelTask


class Brief(Value):
    """What a role answers from: inter-stage (best, summaries) and intra-stage (chains, analysis, ...)."""

    task: KernelTask
    baseline: Baseline
    stage: StageName
    attempt: int = 1
    """Number, in the whole run, of the attempt that the answer leads to."""
    objective: str
    """What the stage is to achieve, in words."""
    ranked_by: str = ""
    """What makes one kernel better than another in this run, and what the run hands over, in words."""
    metrics: tuple[str, ...] = ()
    """Nsight Compute metrics that matter in this stage (paper, App. F)."""
    measurable: tuple[str, ...] = ()
    """Metrics that were measured in this run, so that an effect predicted in one can be checked."""
    mode: Mode
    kernel: Candidate | None = None
    """The broken kernel in repair mode, the kernel to improve in optimize mode, None in seed mode."""
    evaluation: Evaluation | None = None
    """Evaluation of `kernel`."""
    best: Candidate | None = None
    """The best kernel so far."""
    best_evaluation: Evaluation | None = None
    """Evaluation of `best`."""
    origin: Attempt | None = None
    """In repair mode, the attempt that the broken kernel came from: its nearest right ancestor, else its parent."""
    analysis: Analysis | None = None
    diagnosis: Diagnosis | None = None
    summaries: tuple[StageSummary, ...] = ()
    """Summaries of the finished stages."""
    sweeps: tuple[Sweep, ...] = ()
    """What the tuner of each stage tried, in order."""
    attempts: tuple[Attempt, ...] = ()
    """Attempts of this stage, in order."""
    chains: tuple[Chain, ...] = ()
    """The same attempts as chains, in order."""
    principles: tuple[Principle, ...] = ()
    """The principles that apply, the most relevant first."""
    scores: tuple[PrincipleScore, ...] = ()
    """What came of the principles that this run has followed."""
    guidance: dict[str, str] = {}
    """What is known about kernels for the reference's operators: playbook name -> a few lines."""
    lessons: tuple[Lesson, ...] = ()
    """What earlier runs measured in this stage on problems like this one, the nearest first."""
    contender: Attempt | None = None
    """The embedded expert's kernel, judged before the team was asked: the team may start from it and must beat it."""
    remaining: Remaining | None = None
    """What is left of the run's limits."""
    draft: int = 1
    """Which of the drafts that are written side by side this coder writes, from 1."""
    drafts: int = 1
    """How many coders draft from this brief, or are to draft from the analyst's answer, side by side; 1: one alone."""

    @property
    def at_hand(self) -> Chain | None:
        """The chain whose kernel is to be repaired; None in the other modes."""
        return self.chains[-1] if self.mode == "repair" and self.chains else None

    @property
    def dead_ends(self) -> tuple[Chain, ...]:
        """Chains of this stage that ended without a better kernel, so that no such plan is tried again.

        What no clock could decide is none of them.
        """
        return tuple(c for c in self.chains if c.outcome in ("no_better", "broken") and c is not self.at_hand)


class AnalystBrief(Brief):
    """The analyst's brief: the kernel to improve, with its evaluation."""

    mode: Literal["optimize"] = "optimize"
    kernel: Candidate
    evaluation: Evaluation


class DebuggerBrief(Brief):
    """The debugger's brief: the broken kernel, with its evaluation."""

    mode: Literal["repair"] = "repair"
    kernel: Candidate
    evaluation: Evaluation


class SeedBrief(Brief):
    """The coder's brief where there is no kernel yet."""

    mode: Literal["seed"] = "seed"


class OptimizeBrief(AnalystBrief):
    """The coder's brief where there is a plan: the kernel to change, and the analysis to carry out."""

    analysis: Analysis


class RepairBrief(DebuggerBrief):
    """The coder's brief where its kernel is broken: the kernel, and the diagnosis to follow."""

    diagnosis: Diagnosis


CoderBrief = SeedBrief | OptimizeBrief | RepairBrief
"""The coder's brief, one type for each mode."""
