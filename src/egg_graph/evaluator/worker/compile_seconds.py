"""How long Triton's compiler has worked in a candidate's process.

The process is the candidate's, so the figure is a testimony: it tells where time went, and decides nothing.
"""

from __future__ import annotations

from typing import Any

from triton import knobs


class CompileSeconds:
    """Listens to Triton's compiler from now on; `total` is what all compilations took [s]."""

    def __init__(self) -> None:
        self.total = 0.0
        knobs.compilation.listener = self

    def __call__(self, *, times: Any, **_: Any) -> None:
        """Called by Triton after each compilation; `times.total` is in microseconds."""
        self.total += times.total / 1e6
