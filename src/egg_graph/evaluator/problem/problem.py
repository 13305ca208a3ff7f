"""One task under judgement: its cases, whether it can be judged at all, and its baseline without timing."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.case_store import CaseStore
from egg_graph.evaluator.problem.input_reads import fully_read_inputs
from egg_graph.evaluator.problem.uses import Uses, choose_uses
from egg_graph.evaluator.problem.validity import Validity, check_validity
from egg_graph.schema import Baseline


@dataclass
class Problem(CaseStore):
    """A task under judgement. Everything about it is computed once and cached.

    A candidate's process receives nothing of it but the inputs and weights of the call at hand.
    """

    cached_uses: dict[str, Uses] = field(default_factory=dict)
    """Further uses that have been chosen, by shape."""

    @cached_property
    def fully_read_inputs(self) -> set[int]:
        """Positions of the inputs that the reference reads completely at full shape; empty if that is not known."""
        try:
            return fully_read_inputs(self.reference, self.cases("shrunk")[0])
        except Exception:  # noqa: BLE001 - some references fail under fake tensors; then nothing is known
            return set()

    def bytes_read_wholly(self, case: Case) -> int:
        """Bytes of a case's inputs that the reference surely reads from end to end."""
        read = [case.inputs[index] for index in self.fully_read_inputs]
        return sum(x.numel() * x.element_size() for x in read if isinstance(x, torch.Tensor))

    @cached_property
    def validity(self) -> Validity:
        """Whether a candidate can be judged at all, on which inputs, and what a fixed tolerance would accept."""
        return check_validity(self)

    @cached_property
    def untimed_baseline(self) -> Baseline:
        """The baseline with every field that needs no timing.

        Raises:
            BadInput: if the reference fails at its own shape.
        """
        chosen = tuple(self.shapes[name] for name in ("shrunk", "awkward") if name in self.shapes)
        summary, validity = self.forward_summary, self.validity
        return summary.model_copy(
            update={
                "shrunk_shapes": chosen,
                "unevaluable": validity.unevaluable,
                "families": validity.families,
                "weaknesses": validity.weaknesses,
            }
        )

    @property
    def is_surveyed(self) -> bool:
        """Whether `untimed_baseline` is known already."""
        return "untimed_baseline" in vars(self)

    def uses(self, name: str) -> Uses:
        """Cases for further uses of a module that answers `cases(name)`.

        Raises:
            Unevaluable: as `cases`.
        """
        if name not in self.cached_uses:
            self.cached_uses[name] = choose_uses(self, name)
            self.cached_cases[f"{name}/uses"] = self.cached_uses[name].cases
        return self.cached_uses[name]
