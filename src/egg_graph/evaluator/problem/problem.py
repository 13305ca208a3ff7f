"""One task under judgement: its cases, whether it can be judged at all, and the baseline without timing."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from egg_graph.evaluator.problem.case_store import Cases
from egg_graph.evaluator.problem.input_reads import wholly_read
from egg_graph.evaluator.problem.uses import Uses, uses_of
from egg_graph.evaluator.problem.validity import Soundness, examine
from egg_graph.schema import Baseline


@dataclass
class Problem(Cases):
    """A task under judgement. Everything is established once and kept; nothing of it reaches a candidate's process
    but the inputs and weights of the call at hand."""

    known_uses: dict[str, Uses] = field(default_factory=dict)
    """Further uses by shape."""

    @cached_property
    def wholly_read(self) -> set[int]:
        """Numbers of the inputs that the reference reads as a whole at full shape; empty where that is not known.

        Raises:
            Unevaluable: as `cases`.
        """
        try:
            return wholly_read(self.reference, self.cases("shrunk")[0])
        except Exception:  # noqa: BLE001 - a reference that defies fake tensors; then nothing is certain
            return set()

    @cached_property
    def soundness(self) -> Soundness:
        """Whether a candidate can be judged at all, on which inputs, and what a fixed tolerance would let pass."""
        return examine(self)

    @cached_property
    def surveyed(self) -> Baseline:
        """The baseline as far as it is established without timing."""
        chosen = tuple(self.shapes[name] for name in ("shrunk", "awkward") if name in self.shapes)
        plain, sound = self.plainly_surveyed, self.soundness
        return plain.model_copy(
            update={
                "shrunk_shapes": chosen,
                "unevaluable": sound.unevaluable,
                "families": sound.families,
                "weaknesses": sound.weaknesses,
            }
        )

    def uses(self, name: str) -> Uses:
        """Further questions for a module that answers `cases(name)`, of the same form unless they say otherwise.

        Raises:
            Unevaluable: as `cases`.
        """
        if name not in self.known_uses:
            self.known_uses[name] = uses_of(self, name)
            self.known[f"{name}/uses"] = self.known_uses[name].cases
        return self.known_uses[name]
