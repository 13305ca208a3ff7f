"""Confirm the timing of a finalist by a second measurement in fresh processes on fresh inputs."""

from __future__ import annotations

import hashlib

from egg_graph.schema import Confirmation, Evaluation, Rung, Status

RUNG = "confirmation"
FAR = 0.1
"""Two ratios disagree if the gap between their intervals exceeds this fraction of the smaller ratio."""


def second_seed(root: int) -> int:
    """Derive the root seed of the second measurement from the first one's."""
    return int.from_bytes(hashlib.sha256(f"{root}/second measurement".encode()).digest()[:8], "big") >> 2


def confirmed(first: Evaluation, second: Evaluation) -> Evaluation:
    """Add the result of the second evaluation to the first.

    `faster` and `slower` stay only where both say so; a second evaluation that rejects the kernel rejects it. The
    seconds of the second one are the rung's, and count with the first one's.
    """
    answer = _with_second(first, second)
    took = {"seconds": second.seconds}
    return answer.model_copy(
        update={
            "seconds": round(first.seconds + second.seconds, 3),
            "spent": first.spent + second.spent,
            "rungs": tuple(r.model_copy(update=took) if r.name == RUNG else r for r in answer.rungs),
        }
    )


def _with_second(first: Evaluation, second: Evaluation) -> Evaluation:
    if not second.usable:
        return _rejected(first, second)
    if first.timing is None:
        return first
    if second.timing is None:
        return _told(first, "inconclusive", f"the second measurement told no speed: {second.reason}", passed=False)
    agrees = _agree(first, second)
    timing = first.timing.model_copy(
        update={
            "confirmation": Confirmation(
                ratio=second.timing.ratio,
                ratio_low=second.timing.ratio_low,
                ratio_high=second.timing.ratio_high,
                pairs=second.timing.pairs,
                agrees=agrees,
            )
        }
    )
    measured = first.model_copy(update={"timing": timing})
    interval = f"{second.timing.ratio:.2f}x ({second.timing.ratio_low:.2f} to {second.timing.ratio_high:.2f})"
    if second.status != first.status:
        words = f"measured again in fresh processes: {interval}, {second.status} where the first was {first.status}"
        return _told(measured, "inconclusive", words, passed=False)
    words = f"measured again in fresh processes on fresh inputs: {interval}, {second.status} as before"
    if not agrees:
        return _told(measured, first.status, f"{words}, but by another factor", passed=False)
    return _told(measured, first.status, words, passed=True)


def _agree(first: Evaluation, second: Evaluation) -> bool:
    """Whether both have the same status and intervals close to each other."""
    assert first.timing is not None and second.timing is not None
    lower, upper = sorted((first.timing, second.timing), key=lambda timing: timing.ratio)
    return first.status == second.status and upper.ratio_low - lower.ratio_high <= FAR * lower.ratio


def _told(evaluation: Evaluation, status: Status, words: str, *, passed: bool) -> Evaluation:
    rung = Rung(name=RUNG, outcome="passed" if passed else "failed", statement=words)
    reason = evaluation.reason if passed else f"{evaluation.reason}; {words}"
    return evaluation.model_copy(
        update={"status": status, "reason": reason, "rungs": (*evaluation.rungs, rung)},
    )


def _rejected(first: Evaluation, second: Evaluation) -> Evaluation:
    words = f"right at first, but in fresh processes on fresh inputs: {second.reason}"
    return first.model_copy(
        update={
            "status": second.status,
            "reason": words,
            "findings": (*first.findings, *second.findings),
            "rungs": (*first.rungs, Rung(name=RUNG, outcome="failed", statement=words)),
            "checks": (*first.checks, *(check for check in second.checks if not check.passed)),
            "log": second.log or first.log,
        }
    )
