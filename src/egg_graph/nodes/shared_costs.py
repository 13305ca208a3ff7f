"""What drafts that are written side by side cost together, while they are written."""

import threading
from collections.abc import Callable

from egg_graph.schema import Usage


class SharedCosts:
    """Lets each draft see what the others have cost so far, so that a budget holds for all of them together.

    Args:
        paid: how many drafts cost a request at least. A request counts as soon as it is allowed.
    """

    def __init__(self, paid: int = 0) -> None:
        self._lock = threading.Lock()
        self._request = Usage(calls=1 if paid else 0)
        self._costs = dict.fromkeys(range(1, paid + 1), self._request)

    def ask(self, number: int, cost: Usage, spent: Callable[[Usage], str]) -> str:
        """Allow a draft one more request, or name the budget that forbids it.

        Args:
            number: of the draft.
            cost: what it has cost so far.
            spent: names the budget that is used up when all drafts have cost so much; empty where none is.
        """
        with self._lock:
            self._costs[number] = cost
            budget = spent(sum(self._costs.values(), Usage()))
            if not budget:
                self._costs[number] = cost + self._request
            return budget

    def note(self, number: int, cost: Usage) -> None:
        """Note what a draft has cost in the end."""
        with self._lock:
            self._costs[number] = cost
