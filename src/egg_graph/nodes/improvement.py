"""Does a kernel replace the best one, and did a predicted effect come true?"""

from collections.abc import Callable, Sequence

from egg_graph.context import Accept
from egg_graph.schema import SMALL_SPILL, Effect, Evaluation, Expectation
from egg_graph.schema.lost_checks import lost_checks, only_refuses

NOISE = 0.01
"""Smallest relative gain in time that counts. Medians of one kernel differ by about as much between repeats (H200)."""
LESS_GENERAL = 0.1
"""Smallest relative gain that counts where the new kernel refuses a reduced shape that the old one takes."""
RANKED_BY_TIME = (
    f"Kernels are ranked by their measured median time; a gain of {NOISE:.0%} or less does not count, and no check "
    f"that the best kernel passed may fail; one that refuses odd shapes which the best kernel takes has to gain "
    f"{LESS_GENERAL:.0%}."
)
RANKED_UNTIMED = (
    "Nothing is timed here. Kernels are ranked by the lower bound on their time, to two digits, where a bound below "
    f"the task's floor counts as the floor; then by spilled bytes, where up to {SMALL_SPILL} byte a thread count as "
    "none. Of equal kernels the earlier one stays. Occupancy, tile shapes, mapping and cache traffic rank nothing, "
    "because only a measurement shows whether they pay: a right kernel that is equal so is undecided, no dead end."
)
"""What ranks kernels, for prompts and docs; the code is `improves` and `Evaluation.merit`."""


def improves(new: Evaluation, old: Evaluation | None) -> bool:
    """True where `new` is usable, better than `old` by merit, and passed every check that `old` passed.

    Two timed kernels are compared by their median times, and a relative gain of `NOISE` or less does not count. One
    that refuses shapes that `old` takes, but is right at others, has to gain `LESS_GENERAL`.
    """
    if not new.usable:
        return False
    if old is None or not old.usable:
        return True
    lost = lost_checks(new, old)
    if lost and not only_refuses(new, lost):
        return False
    if new.timing is not None and old.timing is not None:
        return new.timing.candidate_ms < old.timing.candidate_ms * (1 - (LESS_GENERAL if lost else NOISE))
    return not lost and new.merit < old.merit


def front_runner(evaluations: Sequence[Evaluation]) -> int:
    """Which of several kernels goes on, as an index: the best by `improves`, of equal ones the first.

    Where none is usable, it is the one that passed most checks, then most rungs.
    """
    first, *others = range(len(evaluations))
    best = first
    if any(evaluation.usable for evaluation in evaluations):
        for index in others:
            if improves(evaluations[index], evaluations[best]):
                best = index
        return best
    return max(range(len(evaluations)), key=lambda index: _how_far(evaluations[index]))


def _how_far(evaluation: Evaluation) -> tuple[int, int]:
    """How far a kernel that is not usable got."""
    checks = {check.name for check in evaluation.checks if check.passed}
    return len(checks), sum(rung.outcome == "passed" for rung in evaluation.rungs)


def undecided(new: Evaluation, old: Evaluation | None) -> bool:
    """True where `new` is right and nothing that was established makes it better or worse than `old`: no clock told."""
    if not new.usable or new.timing is not None or old is None or old.timing is not None:
        return False
    return not lost_checks(new, old) and new.merit == old.merit


def acceptance_rule(timed: bool, accept: Accept) -> str:
    """What makes one kernel better than another, and what a run hands over, in words for the agents.

    Args:
        timed: whether kernels are timed.
        accept: which kernel the run hands over.
    """
    end = " At the end PyTorch stays unless the best kernel is faster with confidence."
    told = RANKED_BY_TIME + end * (accept == "faster") if timed else RANKED_UNTIMED
    return f"A kernel is accepted only if its answers are right. {told}"


def measure_effect(expected: Expectation | None, before: Evaluation | None, after: Evaluation) -> Effect | None:
    """Compare what the analyst predicted with what was measured; None where nothing was predicted."""
    if expected is None:
        return None
    old = None if before is None else read_metric(before, expected.metric)
    new = read_metric(after, expected.metric)
    if old is None or new is None:
        return Effect(expected=expected, before=old, after=new)
    return Effect(
        expected=expected, before=old, after=new, held=new < old if expected.direction == "down" else new > old
    )


def _of_bound(name: str) -> Callable[[Evaluation], float | None]:
    """Reader of a number of the bound."""
    return lambda e: None if e.bound is None else float(getattr(e.bound, name))


READERS: dict[str, Callable[[Evaluation], float | None]] = {
    "milliseconds": lambda e: None if e.timing is None else e.timing.candidate_ms,
    "bound_ms": _of_bound("milliseconds"),
    "launches": _of_bound("launches"),
    "dram_bytes": _of_bound("dram_bytes"),
    "occupancy": lambda e: min((r.occupancy for r in e.resources if r.occupancy is not None), default=None),
    "registers": lambda e: max((float(r.registers) for r in e.resources if r.registers is not None), default=None),
    "spill_bytes": lambda e: float(sum(r.spill_bytes for r in e.resources)) if e.resources else None,
    "shared_bytes": lambda e: float(max(r.shared_bytes for r in e.resources)) if e.resources else None,
}
"""Reader of each metric that no profiler is needed for."""


def read_metrics(evaluation: Evaluation) -> dict[str, float]:
    """All metrics that the evaluator established, by name."""
    found = {name: value for name, read in READERS.items() if (value := read(evaluation)) is not None}
    profiled = {name: m.value for name, m in evaluation.profile.metrics.items() if name not in READERS}
    return found | {name: value for name, value in profiled.items() if value is not None}


def read_metric(evaluation: Evaluation, metric: str) -> float | None:
    """The value of one metric; None where the evaluator did not establish it.

    Args:
        metric: `milliseconds` [ms], `bound_ms` [ms], `launches`, `dram_bytes` [byte], `occupancy` (0 to 1, the smallest
            of all kernels), `registers` (per thread, the largest of all kernels), `spill_bytes` [byte per thread, their
            sum], `shared_bytes` [byte per program, the largest], or an Nsight Compute metric's name.
    """
    reader = READERS.get(metric)
    if reader is not None:
        return reader(evaluation)
    found = evaluation.profile.metrics.get(metric)
    return None if found is None else found.value
