"""How often the effect that a principle predicts was measured."""

from egg_graph.schema.base import Value


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
