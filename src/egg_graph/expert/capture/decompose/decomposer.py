"""`run_decompositions` for several exports of one forward, without PyTorch's preparations for each. Imports torch."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from torch.export import exported_program

from egg_graph.expert.capture.decompose.table import TABLE

Rule = Callable[..., Any]
SPLIT: Any = getattr(exported_program, "_split_decomp_table_to_cia_and_python_decomp", None)
DECOMPOSE: Any = getattr(exported_program, "_decompose_exported_program", None)
OPTIONS = ("ep", "cia_to_decomp", "python_decomp_table", "joint_loss_index", "decompose_custom_triton_ops")
KNOWN = bool(SPLIT and DECOMPOSE and tuple(inspect.signature(DECOMPOSE).parameters) == OPTIONS)
"""Whether this PyTorch has the two halves of `run_decompositions` as we know them."""


class Decomposing:
    """Decomposes programs of one forward at several shapes by `TABLE`.

    Before each program PyTorch overrides every composite operator that it has, some 500, to keep them whole; that takes
    as long as all the rest of an export. Here only the first program pays for it, and notes which of them it met; for
    the others those are overridden. One that meets another operator beside them has another structure in any case, and
    structures are compared.
    """

    def __init__(self) -> None:
        self.met: dict[Any, Rule] | None = None
        """Composite operators that the first program met, with their rules; None before it."""
        self.primitive: dict[Any, Rule] = {}
        """The rules of operators that are not composite."""

    def run(self, program: Any) -> Any:
        """The program in operators that the playbooks know."""
        if not KNOWN:
            return program.run_decompositions(TABLE)
        if self.met is not None:
            return self._decomposed(program, self.met)
        composite, self.primitive = SPLIT(dict(TABLE))
        met: dict[Any, Rule] = {}
        answer = self._decomposed(program, {op: _noting(met, op, rule) for op, rule in composite.items()})
        self.met = met
        return answer

    def _decomposed(self, program: Any, composite: dict[Any, Rule]) -> Any:
        return DECOMPOSE(
            program,
            cia_to_decomp=composite,
            python_decomp_table=dict(self.primitive),
            joint_loss_index=None,
            decompose_custom_triton_ops=False,
        )


def _noting(met: dict[Any, Rule], op: Any, rule: Rule) -> Rule:
    @functools.wraps(rule)
    def noted(*args: Any, **kwargs: Any) -> Any:
        met[op] = rule
        return rule(*args, **kwargs)

    return noted
