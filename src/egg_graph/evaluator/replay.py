"""Compare two evaluations of one kernel on the same seeds: what agrees, what differs, and what may explain it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from egg_graph.schema import Check, Environment, Evaluation

TIMED = frozenset({"faster", "slower", "inconclusive"})
UNTIMED_STATUS = "correct"


@dataclass(frozen=True)
class ReplayComparison:
    """A replay compared with its record, in lines for a person."""

    agrees: tuple[str, ...]
    differs: tuple[str, ...]
    why: tuple[str, ...]
    """Differences between the two machines. With any of them, bitwise equality is not promised."""
    not_repeated: tuple[str, ...]
    """What only one of the two evaluations could do."""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.differs


def compare_replay(recorded: Evaluation, repeated: Evaluation) -> ReplayComparison:
    """Compare a repeated evaluation with the recorded one.

    Correctness must agree bit for bit: every check's error, difference and verdict. Times may differ, but the verdict
    on speed must agree. What only one of the two could do (timing, if the other had no GPU) is listed apart.
    """
    agrees: list[str] = []
    differs: list[str] = []
    not_repeated: list[str] = []
    _compare_status(recorded, repeated, agrees, differs, not_repeated)
    _compare_checks(recorded, repeated, agrees, differs, not_repeated)
    _compare_findings(recorded, repeated, agrees, differs)
    _compare_timing(recorded, repeated, agrees, not_repeated)
    return ReplayComparison(tuple(agrees), tuple(differs), _other_machine(recorded, repeated), tuple(not_repeated))


def _compare_status(
    recorded: Evaluation, repeated: Evaluation, agrees: list[str], differs: list[str], not_repeated: list[str]
) -> None:
    told = f"the verdict: {repeated.status}"
    if recorded.status == repeated.status:
        agrees.append(told)
    elif {recorded.status, repeated.status} <= TIMED | {UNTIMED_STATUS} and (
        (recorded.timing is None) != (repeated.timing is None)
    ):
        agrees.append(f"the verdict on its answers: right ({recorded.status} then, {repeated.status} now)")
        not_repeated.append("the verdict on speed: only one of the two evaluations was timed")
    else:
        differs.append(f"the verdict: {recorded.status} then, {repeated.status} now ({repeated.reason})")


def _compare_checks(
    recorded: Evaluation, repeated: Evaluation, agrees: list[str], differs: list[str], not_repeated: list[str]
) -> None:
    then, now = _by_key(recorded), _by_key(repeated)
    common = then.keys() & now.keys()
    equal = {key for key in common if _exact(then[key], now[key]) == _exact(now[key], then[key])}
    if equal:
        agrees.append(f"{len(equal)} of {len(then)} checks, bit for bit: error, largest difference, budget and verdict")
    for key in (key for key in then if key in common - equal):
        a, b = then[key], now[key]
        differs.append(
            f"check {a.name} ({a.family}, seed {a.seed}, {a.machine}): error {a.error!r} then, {b.error!r} now; "
            f"budget {a.budget!r} then, {b.budget!r} now; {'passed' if a.passed else 'failed'} then, "
            f"{'passed' if b.passed else 'failed'} now"
        )
    missing = [then[key] for key in then if key not in common]
    if not missing:
        return
    machines = {check.machine for check in repeated.checks}
    elsewhere = [check for check in missing if check.machine not in machines]
    timed = [check for check in missing if check.machine in machines and check.name.startswith("timed")]
    if elsewhere:
        not_repeated.append(f"{len(elsewhere)} checks that were made on {', '.join({c.machine for c in elsewhere})}")
    if timed:
        not_repeated.append(f"{len(timed)} checks of timed calls: their number depends on the time that calls take")
    if left := [check for check in missing if check not in elsewhere and check not in timed]:
        names = ", ".join(sorted({check.name for check in left}))
        differs.append(f"{len(left)} checks were made then and not now ({names})")


def _by_key(evaluation: Evaluation) -> dict[str, Check]:
    """Key checks by what they compared; equal ones are numbered in order."""
    found: dict[str, Check] = {}
    for check in evaluation.checks:
        key, count = json.dumps([check.name, check.family, check.seed, check.machine, check.shapes]), 0
        while f"{key}#{count}" in found:
            count += 1
        found[f"{key}#{count}"] = check
    return found


def _exact(check: Check, other: Check) -> str:
    """Return every bit of a check as text, in which a NaN equals a NaN; of the fields that both records have."""
    return check.model_dump_json(include=check.model_fields_set & other.model_fields_set)


def _compare_findings(recorded: Evaluation, repeated: Evaluation, agrees: list[str], differs: list[str]) -> None:
    then, now = ([finding.kind for finding in evaluation.findings] for evaluation in (recorded, repeated))
    if then == now:
        agrees.append(f"findings: {', '.join(then) or 'none'}")
    else:
        differs.append(f"findings: {', '.join(then) or 'none'} then, {', '.join(now) or 'none'} now")


def _compare_timing(recorded: Evaluation, repeated: Evaluation, agrees: list[str], not_repeated: list[str]) -> None:
    then, now = recorded.timing, repeated.timing
    if then is None or now is None:
        if then is not None:
            not_repeated.append(f"the timing of {then.candidate_ms:.4g} ms: nothing was timed now")
        return
    # A verdict that changes with the ratio is a difference already; the times themselves may move.
    agrees.append(
        f"timed anew: {now.candidate_ms:.4g} ms, {now.ratio:.3f}x ({now.ratio_low:.3f} to {now.ratio_high:.3f}); then "
        f"{then.candidate_ms:.4g} ms, {then.ratio:.3f}x ({then.ratio_low:.3f} to {then.ratio_high:.3f})"
    )


def _other_machine(recorded: Evaluation, repeated: Evaluation) -> tuple[str, ...]:
    then, now = recorded.environment, repeated.environment
    if then is None or now is None:
        return ("the record does not say where it was made",)
    named = {"gpu": "GPU", "driver": "driver", "cuda": "CUDA", "torch": "torch", "triton": "triton", "python": "Python"}
    return tuple(
        f"{word}: {getattr(then, field) or 'none'} then, {getattr(now, field) or 'none'} now"
        for field, word in {"machine": "machine", **named}.items()
        if _told(then, field) != _told(now, field)
    )


def _told(environment: Environment, field: str) -> str:
    return str(getattr(environment, field) or "")
