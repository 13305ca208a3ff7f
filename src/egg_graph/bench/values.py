"""The results of a bench: one row a problem, and the terms on which all rows were measured."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from egg_graph.schema import USABLE, Baseline, Environment, Evaluation, KernelTask, Precision, Usage, Value

if TYPE_CHECKING:
    from egg_graph import Run

STATISTIC = (
    "Medians over interleaved pairs, in milliseconds; ratio is the faster of eager and torch.compile over the kernel, "
    "both at the policy's precision, with a 95 % bootstrap interval; error is the relative L2 error against fp64 of "
    "the check nearest to its budget."
)
NOT_FASTER, REJECTED = "right, but not faster", "rejected as a finalist"
"""Causes of a reference that was kept although an attempt was right, or only looked right."""
NO_RUN = ("bad_input", "infra_error")
"""Statuses of a row without a run: the reference is none, or the machine failed."""


class Row(Value):
    """One reference. Times are None where nothing was timed; `bound_ms` and `floor_ms` are never times."""

    name: str
    section: str = ""
    """Part of the suite: `level1`, `workloads`, or empty."""
    operator_class: str = ""
    """Class by the rule of `egg_graph.bench.classes`."""
    without: str = ""
    """What was left out for an ablation; empty for the whole."""
    source: str = ""
    """SHA-256 of the reference's file, as 16 hex digits."""
    task: str
    """`KernelTask.digest`"""
    status: str
    """Status of the kernel handed over; `reference_kept`; or `bad_input`, `infra_error` where no run could be made."""
    reason: str
    cause: str = ""
    """Why there is no kernel: a right one was not faster, or else the most frequent end of the attempts."""
    found_right: bool = False
    """Whether an attempt was right, handed over or not."""
    found_ms: float | None = None
    """Time of the best right attempt, handed over or not [ms]."""
    found_ratio: float | None = None
    """Ratio of the best right attempt, handed over or not; no statistic uses it."""
    kernel_ms: float | None = None
    eager_ms: float | None = None
    compile_ms: float | None = None
    tuned_ms: float | None = None
    """Time of tuned PyTorch: the fastest that its own switches make it."""
    tuned: str = ""
    """Forward and switches of the fastest; why it was not measured; empty where nobody asked."""
    eager_fp32_ms: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    pairs: int | None = None
    error: float | None = None
    budget: float | None = None
    bound_ms: float | None = None
    floor_ms: float | None = None
    flops: float | None = None
    """Operations in matrix products of the reference [flop]."""
    compulsory_bytes: float | None = None
    """Bytes of inputs, parameters and outputs, each once."""
    triton_share: float | None = None
    kernelbench: bool | None = None
    """Whether the best right attempt passes KernelBench's own criterion; None where that was not computed."""
    seed: int | None = None
    """Root of all seeds of the last evaluation."""
    sm_clock_mhz: float | None = None
    """Clock of the multiprocessors after the measurement [MHz]."""
    throttled: tuple[str, ...] = ()
    """Why the driver held the clocks down during the measurement."""
    attempts: int = 0
    seconds: float = 0.0
    """Seconds spent inside the run's nodes."""
    usage: Usage = Usage()
    resumed: bool = False
    """Whether an earlier process of the bench had begun the run."""
    run: str = ""
    """Name of the run's folder."""

    @property
    def usable(self) -> bool:
        """Whether the run handed over a kernel that may replace the reference."""
        return self.status in USABLE

    @property
    def right(self) -> bool:
        """Whether a right kernel was written, handed over or not."""
        return self.usable or self.found_right

    @property
    def score(self) -> float:
        """The ratio with which the problem counts: the kernel's, else 1.0 (failed, reference kept, not timed)."""
        return self.ratio if self.usable and self.ratio is not None else 1.0

    @property
    def baseline_ms(self) -> float | None:
        """The faster of eager and torch.compile at the policy's precision [ms]."""
        return min(filter(None, (self.eager_ms, self.compile_ms)), default=None)

    @property
    def tuned_ratio(self) -> float | None:
        """Time of tuned PyTorch over the kernel's; None where either was not measured."""
        return self.tuned_ms / self.kernel_ms if self.usable and self.tuned_ms and self.kernel_ms else None

    @property
    def of_roofline(self) -> float | None:
        """The roofline's floor over the time of what a user is left with; 1 is the roofline itself."""
        return self.floor_ms / self.used_ms if self.floor_ms and self.used_ms else None

    @property
    def used_ms(self) -> float | None:
        """Time of what a user is left with: the kernel, or the faster baseline where there is none [ms]."""
        return self.kernel_ms if self.usable and self.kernel_ms is not None else self.baseline_ms


class Results(Value):
    """The rows of a bench, with what is needed to read them and to measure them again."""

    name: str
    suite: str = ""
    """What the problems were chosen from; empty where nobody named it."""
    command: str = ""
    """The whole command of the last start; empty where there was none."""
    version: str
    commit: str = ""
    """Commit of the source tree, with `-dirty` if it was changed; empty outside of one."""
    code: str = ""
    """Digest of the installed package and its prompts."""
    evaluator: str = ""
    """Digest of the evaluator's own source."""
    started: str
    """Time of the first start, UTC, ISO 8601."""
    model: str
    judge: str = ""
    """Name of the evaluator elsewhere that judged; empty for this machine's."""
    parts: str = ""
    """Function that makes team and evaluator in place of the default ones, as `module:function`."""
    runs_dir: str = ""
    """Folder of the runs' folders, as it was given."""
    precision: Precision
    target: str
    settings: dict[str, Any]
    """The knobs of every run, as JSON data."""
    without: tuple[str, ...] = ()
    """Ablations that were run beside the whole."""
    gpus: int = 0
    """GPUs that were used at once; 0 without one."""
    workers: int = 1
    """Problems at a time, all GPUs together."""
    environment: Environment | None = None
    statistic: str = STATISTIC
    problems: int | None = None
    """How many problems the bench has, those of earlier selections included; None where nobody recorded it."""
    rows: tuple[Row, ...] = ()

    @property
    def whole(self) -> tuple[Row, ...]:
        """The rows with nothing left out."""
        return tuple(row for row in self.rows if not row.without)


def row_of(run: "Run", **known: str) -> Row:
    """The row of a finished run.

    Args:
        run: the run.
        **known: fields that the run does not know: name, section, operator_class, without, source.
    """
    task: KernelTask = run.state["task"]
    baseline: Baseline = run.state["baseline"]
    evaluation, found = run.evaluation, _best_right(run)
    return Row(
        **{"name": task.name, **known},  # type: ignore[arg-type]
        task=task.digest,
        status=run.status,
        reason=evaluation.reason if evaluation is not None else run.verdict.splitlines()[0],
        cause="" if evaluation is not None else _cause(run),
        found_right=found is not None,
        found_ms=found.timing.candidate_ms if found and found.timing else None,
        found_ratio=found.timing.ratio if found and found.timing else None,
        kernelbench=found.kernelbench.passed if found and found.kernelbench else None,
        eager_ms=baseline.eager_ms,
        compile_ms=baseline.compile_ms,
        eager_fp32_ms=baseline.eager_fp32_ms,
        tuned_ms=None if baseline.tuned is None else baseline.tuned.milliseconds,
        tuned=_tell_tuned(baseline),
        floor_ms=baseline.floor_ms or None,
        flops=baseline.flops or None,
        compulsory_bytes=baseline.compulsory_bytes or None,
        attempts=len(run.attempts),
        seconds=round(run.seconds, 1),
        usage=run.usage,
        run=run.id,
    ).model_copy(update={} if evaluation is None else _figures(evaluation, baseline))


def _tell_tuned(baseline: Baseline) -> str:
    tuned = baseline.tuned
    if tuned is None:
        return ""
    return tuned.name if tuned.milliseconds is not None else tuned.tell()


def _best_right(run: "Run") -> Evaluation | None:
    """The evaluation of the kernel that was handed over, else of the best right attempt.

    An attempt that a finalist's checks rejected is not right; where they rejected all that they saw, none is.
    """
    if run.evaluation is not None:
        return run.evaluation if run.evaluation.usable else None
    finalists = run.state.get("finalists", {})
    rejected = {candidate for candidate, status in finalists.items() if status not in USABLE}
    if rejected and len(rejected) == len(finalists):
        return None
    right = [a.evaluation for a in run.attempts if a.evaluation.usable and a.candidate.id not in rejected]
    return min(right, key=lambda evaluation: evaluation.merit, default=None)


def _cause(run: "Run") -> str:
    """That a right kernel was not faster; else the most frequent end of the attempts, status and first finding."""
    if _best_right(run) is not None:
        return NOT_FASTER
    if not run.attempts:
        return ""
    if any(attempt.evaluation.usable for attempt in run.attempts):
        return REJECTED
    ends = [attempt.evaluation for attempt in run.attempts]
    told = [": ".join([end.status, *(finding.kind for finding in end.findings[:1])]) for end in ends]
    return Counter(told).most_common(1)[0][0]


def _figures(evaluation: Evaluation, baseline: Baseline) -> dict[str, Any]:
    timing, bound = evaluation.timing, evaluation.bound
    checks = [check for check in evaluation.checks if check.budget > 0]
    worst = max(checks, key=lambda check: check.error / check.budget, default=None)
    figures: dict[str, Any] = {"triton_share": evaluation.triton_share, "seed": evaluation.seed}
    if worst is not None:
        figures |= {"error": worst.error, "budget": worst.budget}
    if bound is not None:
        figures |= {"bound_ms": bound.milliseconds}
    if timing is not None:
        figures |= {
            "kernel_ms": timing.candidate_ms,
            "eager_ms": timing.eager_ms,
            "compile_ms": timing.compile_ms,
            "eager_fp32_ms": timing.eager_fp32_ms or baseline.eager_fp32_ms,
            "ratio": timing.ratio,
            "ratio_low": timing.ratio_low,
            "ratio_high": timing.ratio_high,
            "pairs": timing.pairs,
        }
        if timing.after is not None:
            figures |= {"sm_clock_mhz": timing.after.sm_clock_mhz, "throttled": timing.after.throttle_reasons}
    return figures
