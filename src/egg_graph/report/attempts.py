"""What the page shows of one attempt beside its own fields."""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from egg_graph.report.highlighting import difference, highlighted
from egg_graph.schema import Attempt, Evaluation
from egg_graph.schema.lost_checks import lost_checks


class Shown(NamedTuple):
    """One attempt, as the page shows it."""

    attempt: Attempt
    registers: str
    """Per thread, the most of its kernels; "-" where nothing was compiled."""
    spills: str
    """Bytes per thread, the most of its kernels."""
    occupancy: str
    """The least of its kernels."""
    source: Markup | None
    """None where the answer held none."""
    origin: str
    """The attempt that it came from, in words."""
    diff: Markup | str
    """What it changed there, or why that is not shown."""
    not_accepted: str
    """Why a right kernel did not become the best one; empty for others."""
    mended: tuple[str, ...]
    """What was mended in the answers that led to it."""


def show_attempts(attempts: Sequence[Attempt]) -> list[Shown]:
    """All attempts of a run, in order."""
    return [
        _shown(attempt, [*attempts[:place], *_gone_on(attempt, attempts)]) for place, attempt in enumerate(attempts)
    ]


def _gone_on(attempt: Attempt, attempts: Sequence[Attempt]) -> list[Attempt]:
    """The draft that went on in place of this one, of those that were written side by side; nothing for any other."""
    beside = [other for other in attempts if attempt.beside is not None and other.beside == attempt.beside]
    return [other for other in beside[-1:] if other.number != attempt.number]


def _shown(attempt: Attempt, before: Sequence[Attempt]) -> Shown:
    candidate, resources = attempt.candidate, attempt.evaluation.resources
    occupancies = [r.occupancy for r in resources if r.occupancy is not None]
    origin, diff = _origin(attempt, before)
    return Shown(
        attempt=attempt,
        registers=_most([r.registers for r in resources if r.registers is not None]),
        spills=_most([r.spill_bytes for r in resources]),
        occupancy=f"{min(occupancies):.0%}" if occupancies else "-",
        source=highlighted(candidate.source) if candidate.source else None,
        origin=origin,
        diff=diff,
        not_accepted=why_not_accepted(attempt, before),
        mended=_mended(attempt),
    )


def _most(counts: Sequence[int]) -> str:
    return str(max(counts)) if counts else "-"


def _origin(attempt: Attempt, before: Sequence[Attempt]) -> tuple[str, Markup | str]:
    """The attempt that it came from, and what it changed there."""
    candidate = attempt.candidate
    if not candidate.source:
        return "", "the answer held no source"
    if candidate.parent is None:
        return "", "written anew"
    parent = next((a for a in reversed(before) if a.candidate.id == candidate.parent), None)
    if parent is None:
        return f"candidate {candidate.parent}", "the kernel that it came from is no attempt of this run"
    name = f"attempt {parent.number}"
    return name, difference(parent.candidate.source, candidate.source, name)


def _mended(attempt: Attempt) -> tuple[str, ...]:
    """What the parsers mended, one line each, with the role whose answer it was."""
    answers = (("analyst", attempt.analysis), ("debugger", attempt.diagnosis), ("coder", attempt.candidate))
    return tuple(f"{role}: {line}" for role, answer in answers for line in getattr(answer, "mended", ()))


def why_not_accepted(attempt: Attempt, before: Sequence[Attempt]) -> str:
    """Why a right kernel did not become the best one; empty where it did, or is not right.

    Args:
        attempt: the attempt in question.
        before: the attempts before it, in order.
    """
    new = attempt.evaluation
    best = next((a for a in reversed(before) if a.improved), None)
    if attempt.improved or not new.usable or best is None:
        return ""
    name, old = f"attempt {best.number}", best.evaluation
    if attempt.candidate.id == best.candidate.id:
        return f"the same source as {name}"
    if missing := lost_checks(new, old):
        return f"less proven than {name}, which also passed {', '.join(sorted(missing))}"
    if new.timing is None and old.timing is not None:
        return f"not timed, and {name} was"
    if new.timing is not None and old.timing is not None:
        return _slower(new.timing.candidate_ms, old.timing.candidate_ms, name)
    return _no_better_untimed(new, old, name)


def _slower(new: float, old: float, name: str) -> str:
    times = f"{new:.4g} ms against {old:.4g} ms of {name}"
    if new >= old:
        return f"not faster: {times}"
    return f"{times}: a gain of {1 - new / old:.1%} does not count, for repeats differ as much"


def _no_better_untimed(new: Evaluation, old: Evaluation, name: str) -> str:
    if new.merit == old.merit:
        return f"neither better nor worse than {name} by lower bound and spills, and nothing was timed"
    if new.bound is None or old.bound is None:
        return f"no better than {name} by what is known without a clock"
    spills = [sum(r.spill_bytes for r in each.resources) for each in (new, old)]
    return (
        f"no better than {name} without a clock: lower bound {new.bound.milliseconds:.4g} ms and {spills[0]} B "
        f"spilled, against {old.bound.milliseconds:.4g} ms and {spills[1]} B"
    )
