"""How often the effect that a principle predicts was measured."""

from collections.abc import Iterable

from egg_graph.schema import Attempt, PrincipleScore


def score_principles(attempts: Iterable[Attempt]) -> tuple[PrincipleScore, ...]:
    """Score every principle that an analysis named: the most applied first, then by id.

    A kernel and its repairs follow one analysis. They count as one attempt: the last. So do drafts side by side.
    """
    last: list[Attempt] = []
    for attempt in attempts:
        drafted_beside = bool(last) and attempt.beside is not None and last[-1].beside == attempt.beside
        if drafted_beside or (attempt.candidate.mode == "repair" and last):
            last.pop()
        last.append(attempt)
    scores: dict[str, PrincipleScore] = {}
    for attempt in last:
        if attempt.analysis is None:
            continue
        held = attempt.effect.held if attempt.effect is not None else None
        for principle in dict.fromkeys(attempt.analysis.principles):
            old = scores.get(principle, PrincipleScore(principle=principle))
            scores[principle] = PrincipleScore(
                principle=principle,
                applied=old.applied + 1,
                held=old.held + (held is True),
                missed=old.missed + (held is False),
                unmeasured=old.unmeasured + (held is None),
                improved=old.improved + attempt.improved,
            )
    return tuple(sorted(scores.values(), key=lambda score: (-score.applied, score.principle)))
