"""When one kernel stands above another: better, and no less proven."""

from egg_graph.schema import Effect, Evaluation, Expectation

NOISE = 0.01
"""Spread of a kernel's median time between repeats on an H200 (1 to 2 % over runs, less within one)."""


def improves(new: Evaluation, old: Evaluation | None) -> bool:
    """May `new` take the place of `old`? Only if it is usable, of less merit key, and lacks none of old's proofs.

    Merit puts timed kernels before untimed ones; a check that `old` passed and `new` was spared would be a proof lost.
    Between two timed kernels a gain within `NOISE` is none: medians of the same kernel differ by as much.
    """
    if not new.usable:
        return False
    if old is None or not old.usable:
        return True
    if not _passed(old) <= _passed(new):
        return False
    if new.timing is not None and old.timing is not None:
        return new.timing.candidate_ms < old.timing.candidate_ms * (1 - NOISE)
    return new.merit < old.merit


def _passed(evaluation: Evaluation) -> set[str]:
    return {check.name for check in evaluation.checks if check.passed}


def effect(expected: Expectation | None, before: Evaluation | None, after: Evaluation) -> Effect | None:
    """Hold what the analyst predicted against what was measured; None where nothing was predicted."""
    if expected is None:
        return None
    old = None if before is None else measured(before, expected.metric)
    new = measured(after, expected.metric)
    if old is None or new is None:
        return Effect(expected=expected, before=old, after=new)
    return Effect(
        expected=expected, before=old, after=new, held=new < old if expected.direction == "down" else new > old
    )


def measured(evaluation: Evaluation, metric: str) -> float | None:
    """The value of one metric, None where the evaluator did not establish it.

    `milliseconds` (ms), `bound_ms` (ms), `launches`, `dram_bytes` (byte), `occupancy` (0 to 1, the least of all
    kernels), `registers` (per thread, the most of all kernels), or the name of an Nsight Compute metric.
    """
    timing, bound, resources = evaluation.timing, evaluation.bound, evaluation.resources
    match metric:
        case "milliseconds":
            return None if timing is None else timing.candidate_ms
        case "bound_ms":
            return None if bound is None else bound.milliseconds
        case "launches":
            return None if bound is None else float(bound.launches)
        case "dram_bytes":
            return None if bound is None else bound.dram_bytes
        case "occupancy":
            return min((r.occupancy for r in resources if r.occupancy is not None), default=None)
        case "registers":
            return max((float(r.registers) for r in resources if r.registers is not None), default=None)
    found = evaluation.profile.metrics.get(metric)
    return None if found is None else found.value
