"""Read a run's attempts as chains: each plan with the repairs of its kernel, and what was measured at the end."""

from collections.abc import Sequence

from egg_graph.nodes.improvement import READERS
from egg_graph.schema import (
    Attempt,
    Candidate,
    Chain,
    ChainOutcome,
    Delta,
    Evaluation,
    StageName,
    Step,
    failure_of,
)
from egg_graph.schema.lost_checks import lost_checks

STEPS = 8
"""Most attempts of one chain that are told."""


def read_chains(attempts: Sequence[Attempt], best: Candidate | None, stage: StageName) -> tuple[Chain, ...]:
    """The chains of a stage, in the order in which they began.

    Args:
        attempts: all attempts of the run, in order. The contender, number 0, belongs to no chain; its kernel counts.
        best: the best kernel so far.
    """
    improved = [attempt for attempt in attempts if attempt.improved]
    best_id = None if best is None else best.id
    failures: dict[str, list[int]] = {}
    chains = []
    for group in _group([attempt for attempt in attempts if attempt.candidate.stage == stage and attempt.number > 0]):
        before = next((a for a in reversed(improved) if a.number < group[0].number), None)
        steps = _steps(group, failures)
        chain = _chain(group, steps, None if before is None else before.evaluation, best_id)
        if len(group) == 1 and _passed_over(group[0], attempts):
            chain = chain.model_copy(update={"outcome": "passed_over"})
        chains.append(chain)
    return tuple(chains)


def right_ancestor(attempt: Attempt, attempts: Sequence[Attempt]) -> Attempt | None:
    """The attempt that a broken kernel came from: the nearest one with right answers, else the kernel it repairs.

    None where there is none: it was written from the reference.
    """
    earlier = [other for other in attempts if other.number < attempt.number]
    parent = _pop_until(earlier, attempt.candidate.parent)
    ancestor = parent
    while ancestor is not None and not ancestor.evaluation.usable:
        ancestor = _pop_until(earlier, ancestor.candidate.parent)
    return ancestor or parent


def _pop_until(attempts: list[Attempt], candidate: str | None) -> Attempt | None:
    """Take attempts off the end of the list up to the one that made this candidate; None where none did."""
    while attempts:
        if (last := attempts.pop()).evaluation.candidate == candidate:
            return last
    return None


def _group(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """Group each first attempt with the repairs of its kernel; a repair of no known kernel counts to the last one."""
    groups: list[list[Attempt]] = []
    ending_with: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        candidate, group = attempt.candidate, None
        if candidate.mode == "repair" and groups:
            group = ending_with.get(candidate.parent or "", groups[-1])
        if group is None:
            group = []
            groups.append(group)
        group.append(attempt)
        ending_with[attempt.evaluation.candidate] = group
    return groups


def _chain(group: list[Attempt], steps: tuple[Step, ...], before: Evaluation | None, best: str | None) -> Chain:
    """Tell one chain.

    Args:
        before: evaluation of the best kernel before it.
        best: id of the best kernel so far.
    """
    first, last = group[0], group[-1]
    usable = last.evaluation.usable
    lost = tuple(sorted(lost_checks(last.evaluation, before))) if usable and before is not None else ()
    return Chain(
        stage=first.candidate.stage,
        mode=first.candidate.mode,
        category="none" if first.analysis is None else first.analysis.category,
        steps=steps,
        attempts=len(group),
        outcome=_outcome(last, before, lost),
        lost=lost,
        deltas=measure_deltas(before, last.evaluation) if usable and before is not None else (),
        effect=last.effect,
        best=last.evaluation.candidate == best,
    )


def _passed_over(attempt: Attempt, attempts: Sequence[Attempt]) -> bool:
    """True where another draft of the same plan, written beside this one, went on."""
    if attempt.beside is None:
        return False
    front = max((a for a in attempts if a.beside == attempt.beside), key=lambda a: a.number)
    return front.number != attempt.number and front.candidate.plan == attempt.candidate.plan


def _outcome(last: Attempt, before: Evaluation | None, lost: tuple[str, ...]) -> ChainOutcome:
    if not last.evaluation.usable:
        return "broken"
    if last.improved or last.undecided:
        return "improved" if last.improved else "undecided"
    return "less_proven" if lost and before is not None and last.evaluation.merit < before.merit else "no_better"


def _steps(group: list[Attempt], failures: dict[str, list[int]]) -> tuple[Step, ...]:
    """Tell the first attempt of a chain and the last ones, `STEPS` at most.

    Args:
        failures: fingerprint -> the attempts told so far that failed so; those told here are added.
    """
    told = group if len(group) <= STEPS else [group[0], *group[1 - STEPS :]]
    steps = []
    for attempt in told:
        failure = failure_of(attempt.evaluation)
        alike = failures.setdefault(failure, [])
        alike.append(attempt.number)
        step = Step(
            attempt=attempt.number,
            change=attempt.candidate.plan,
            status=attempt.evaluation.status,
            failure=attempt.evaluation.reason if failure else "",
            repeats=attempt.repeats,
            same_as=alike[0] if failure and len(alike) > 1 else None,
            times=len(alike) if failure else 0,
        )
        steps.append(step)
    return tuple(steps)


def measure_deltas(before: Evaluation, after: Evaluation) -> tuple[Delta, ...]:
    """What changed between two kernels, of the quantities that were measured for both."""
    found = []
    for metric, read in READERS.items():
        old, new = read(before), read(after)
        if old is not None and new is not None and old != new:
            found.append(Delta(metric=metric, before=old, after=new))
    return tuple(found)
