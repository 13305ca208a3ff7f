"""Confirm the timing of a finalist, which a judge of its own evaluated, by the measurement that stood before."""

from __future__ import annotations

from egg_graph.schema import Confirmation, Evaluation, Profile, Rung, Status
from egg_graph.schema.evaluation import RESOLUTION

RUNG = "confirmation"
FAR = 0.1
"""Two ratios disagree if the gap between their intervals exceeds this fraction of the smaller ratio."""


def confirmed(finalist: Evaluation, first: Evaluation) -> Evaluation:
    """Hold a finalist's evaluation, made in fresh processes on fresh inputs, against the first judge's.

    `faster` and `slower` stay only where both say so. Where the clocks disagree the second time, and the kernel is
    faster even by the one that counts most, that ratio is told. What the finalist's judge rejects is rejected.

    Args:
        finalist: the evaluation that is told.
        first: an earlier evaluation of the same kernel, usable and timed.
    """
    assert first.timing is not None, "nothing was measured that could confirm a time"
    finalist = finalist.model_copy(update={"profile": _profile(finalist, first)})
    if not finalist.usable:
        words = f"right at first, but in fresh processes on fresh inputs: {finalist.reason}"
        return _told(finalist.model_copy(update={"reason": words}), finalist.status, words, passed=False)
    earlier = f"{first.timing.ratio:.2f}x ({first.timing.ratio_low:.2f} to {first.timing.ratio_high:.2f})"
    if finalist.timing is None:
        words = f"measured before, by another judge: {earlier}, {first.status}; no speed was told now"
        return _told(finalist, "inconclusive", words, passed=False)
    agrees = _agree(finalist, first)
    confirmation = Confirmation(
        ratio=first.timing.ratio,
        ratio_low=first.timing.ratio_low,
        ratio_high=first.timing.ratio_high,
        pairs=first.timing.pairs,
        agrees=agrees,
    )
    timing = finalist.timing.model_copy(update={"confirmation": confirmation})
    measured = finalist.model_copy(update={"timing": timing})
    if first.status == "faster" and _faster_by_every_clock(finalist):
        words = f"measured before, by another judge: {earlier}, and by clocks that agreed"
        return _told(measured, "faster", words, passed=True)
    if finalist.status != first.status:
        words = f"measured before, by another judge: {earlier}, {first.status} where it is {finalist.status} now"
        return _told(measured, "inconclusive", words, passed=False)
    words = f"measured twice, by two judges on inputs of their own: {earlier} before, {first.status} as now"
    if not agrees:
        return _told(measured, finalist.status, f"{words}, but by another factor", passed=False)
    return _told(measured, finalist.status, words, passed=True)


def _faster_by_every_clock(finalist: Evaluation) -> bool:
    """Whether clocks disagree about a kernel that is faster by the clock that counts most of it."""
    timing = finalist.timing
    if finalist.status != "inconclusive" or timing is None or timing.clock == "events":
        return False
    return timing.ratio_low > 1 + RESOLUTION


def _profile(finalist: Evaluation, first: Evaluation) -> Profile:
    """The profile that holds measured metrics; the finalist's where both do."""
    return first.profile if finalist.profile.source != "ncu" and first.profile.source == "ncu" else finalist.profile


def _agree(finalist: Evaluation, first: Evaluation) -> bool:
    """Whether both have the same status and intervals close to each other."""
    assert finalist.timing is not None and first.timing is not None
    lower, upper = sorted((finalist.timing, first.timing), key=lambda timing: timing.ratio)
    return finalist.status == first.status and upper.ratio_low - lower.ratio_high <= FAR * lower.ratio


def _told(evaluation: Evaluation, status: Status, words: str, *, passed: bool) -> Evaluation:
    rung = Rung(name=RUNG, outcome="passed" if passed else "failed", statement=words)
    said = passed or words in evaluation.reason
    return evaluation.model_copy(
        update={
            "status": status,
            "reason": evaluation.reason if said else f"{evaluation.reason}; {words}",
            "rungs": (*evaluation.rungs, rung),
        },
    )
