"""Copies of a reference's module that share nothing with it."""

from __future__ import annotations

import copy
from types import CellType, FunctionType
from typing import Any

from torch import nn


def copy_of(model: nn.Module) -> nn.Module:
    """Return a deep copy of a module, functions that it keeps included.

    `copy.deepcopy` keeps functions as they are. One that a constructor made over a part of the module, such as
    `self.mlpf = lambda x: m.c_proj(m.act(m.c_fc(x)))`, would go on computing with the original's weights.
    """
    copies: dict[int, Any] = {}
    made = copy.deepcopy(model, copies)
    for module in made.modules():
        for name, value in vars(module).items():
            if isinstance(value, FunctionType) and value.__closure__:
                vars(module)[name] = _over_copies(value, copies)
    return made


def _over_copies(function: FunctionType, copies: dict[int, Any]) -> FunctionType:
    """The function over the copies of what it closes over."""
    cells = tuple(_copied_cell(cell, copies) for cell in function.__closure__ or ())
    made = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, cells)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _copied_cell(cell: CellType, copies: dict[int, Any]) -> CellType:
    try:
        held = cell.cell_contents
    except ValueError:  # nothing was assigned yet
        return cell
    return CellType(copies.get(id(held), held))
