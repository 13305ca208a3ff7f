"""Decompose several exports of one forward without repeating PyTorch's preparations. Imports torch."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.export import exported_program

from egg_graph.expert.capture.decompose.table import TABLE

Rule = Callable[..., Any]
SPLIT: Any = getattr(exported_program, "_split_decomp_table_to_cia_and_python_decomp", None)
DECOMPOSE: Any = getattr(exported_program, "_decompose_exported_program", None)
OPTIONS = ("ep", "cia_to_decomp", "python_decomp_table", "joint_loss_index", "decompose_custom_triton_ops")
KNOWN = bool(SPLIT and DECOMPOSE and tuple(inspect.signature(DECOMPOSE).parameters) == OPTIONS)
"""Whether this PyTorch has the two private halves of `run_decompositions` with the signature used here."""


def registered_composites() -> list[str]:
    """Return the names of all composite operators, those included that a reference registers itself."""
    return torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")


@functools.lru_cache(maxsize=1)
def _rules(registered: tuple[str, ...]) -> tuple[dict[Any, Rule], dict[Any, Rule]]:
    """Return the rules for composite operators and for all others, gathered once for the operators that there are."""
    return SPLIT(dict(TABLE))


class Decomposer:
    """Decomposes programs of one forward at several shapes by `TABLE`.

    For each program PyTorch overrides all of its some 500 composite operators to keep them whole, which takes as long
    as the rest of the export. Here only the first program does so and records which operators it met; the other
    programs override those alone. A program that meets a further operator has another structure, and structures are
    compared afterwards.
    """

    def __init__(self) -> None:
        self.met: dict[Any, Rule] | None = None
        """Composite operators that the first program met, with their rules; None before the first program."""
        self.primitive: dict[Any, Rule] = {}
        """Rules for operators that are not composite."""

    def run(self, program: Any) -> Any:
        """Return the program in operators that the playbooks know."""
        if not KNOWN:
            return program.run_decompositions(TABLE)
        if self.met is not None:
            return self._decomposed(program, self.met)
        composite, self.primitive = _rules(tuple(registered_composites()))
        met: dict[Any, Rule] = {}
        answer = self._decomposed(program, {op: _recording(met, op, rule) for op, rule in composite.items()})
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


def _recording(met: dict[Any, Rule], op: Any, rule: Rule) -> Rule:
    @functools.wraps(rule)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        met[op] = rule
        return rule(*args, **kwargs)

    return recorded
