"""`torch.library` as a candidate sees it: operators of its own that hide nothing.

PyTorch's dispatcher would show the operator's name alone, and what its body does beneath stays unseen. So in a
candidate's process `custom_op` and `triton_op` give the function itself, and `wrap_triton` the kernel itself: what they
launch and call is recorded as if `forward` did it. PyTorch's own modules still register real operators.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import update_wrapper
from pathlib import Path
from typing import Any

import torch

_candidates: set[str] = set()
"""Files whose code gets the functions of this module."""
_originals: dict[str, Any] = {}
"""Name in `torch.library` -> PyTorch's own function, once it is replaced."""


class OwnOperator:
    """What `custom_op` makes: the candidate's function, called without a dispatcher."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        update_wrapper(self, function)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.function(*args, **keywords)

    def register_fake(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Take a function for tracing, which nobody needs here."""
        return function

    def register_autograd(self, *functions: Any, **keywords: Any) -> None:
        """Take a backward, which is not judged."""


def _make(name: str, fn: Callable[..., Any] | None = None, /, **keywords: Any) -> Any:
    """Make an operator, or a decorator that does: as `torch.library.custom_op`."""
    return OwnOperator if fn is None else OwnOperator(fn)


def _register_fake(op: Any, func: Callable[..., Any] | None = None, /, **keywords: Any) -> Any:
    return (lambda function: function) if func is None else func


def _ours() -> dict[str, Callable[..., Any]]:
    return {
        "custom_op": _make,
        "triton_op": _make,
        "wrap_triton": lambda kernel: kernel,
        "register_fake": _register_fake,
        "register_autograd": lambda *args, **keywords: None,
    }


def see_through(path: Path) -> None:
    """Give the code of this file operators that hide nothing, for the rest of the process."""
    _candidates.add(str(path))
    for name, ours in _ours().items():
        if name not in _originals and hasattr(torch.library, name):
            _originals[name] = getattr(torch.library, name)
            setattr(torch.library, name, _by_caller(_originals[name], ours))


def _by_caller(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is ours for candidates, and PyTorch's own for everybody else."""

    def chosen(*args: Any, **keywords: Any) -> Any:
        by_candidate = sys._getframe(1).f_code.co_filename in _candidates
        return (ours if by_candidate else original)(*args, **keywords)

    return chosen
