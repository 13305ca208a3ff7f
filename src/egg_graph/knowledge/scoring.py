"""How often the effect that a principle predicts was measured."""

from collections.abc import Iterable

from egg_graph.schema import Attempt, Value


class PrincipleScore(Value):
    """How one principle did over some attempts. All counts are attempts."""

    principle: str
    """Id of the principle."""
    applied: int = 0
    """Attempts whose analysis named the principle."""
    held: int = 0
    """Attempts in which the predicted metric moved in the predicted direction."""
    missed: int = 0
    """Attempts in which it did not."""
    unmeasured: int = 0
    """Attempts whose kernel failed, or whose metric was not measured."""
    improved: int = 0
    """Attempts that became the best kernel."""

    @property
    def rate(self) -> float | None:
        """Share of the measured predictions that held, 0 to 1; None where none was measured."""
        measured = self.held + self.missed
        return self.held / measured if measured else None


def score_principles(attempts: Iterable[Attempt]) -> tuple[PrincipleScore, ...]:
    """Score every principle that an analysis named: the most applied first, then by id."""
    scores: dict[str, PrincipleScore] = {}
    for attempt in attempts:
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
