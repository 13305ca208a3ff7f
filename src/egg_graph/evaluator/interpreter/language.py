"""`triton.language` under the interpreter, for good: Triton points it at the interpreter anew for every launch.

A tensor of a compiled kernel has no value while Python runs. Triton's interpreter gives the value of a scalar to
whoever asks, and takes every block for true. Here nobody gets it but the functions of `compiled_python`.
"""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import triton.language as tl
from triton.runtime import interpreter

from egg_graph.evaluator.interpreter import compiled_python
from egg_graph.evaluator.interpreter.conditions import refuse, unwrap
from egg_graph.evaluator.interpreter.mapped_functions import map_elementwise

OPERATORS = (
    "add", "sub", "mul", "mod", "truediv", "floordiv", "pow", "lshift", "rshift", "and", "or", "xor",
    "lt", "le", "gt", "ge", "eq", "ne",
)  # fmt: skip
"""Operators of `tl.constexpr`, without their underscores."""


def _truth(self: Any) -> bool:
    """Refuse to take a tensor for true or false where the compiler does not decide a condition.

    Triton's own Python is told what it is told in a compiler: that there is a tensor.
    """
    if not sys._getframe(1).f_globals.get("__name__", "").startswith("triton.language."):
        refuse(
            f"the truth of a tensor of type {self.type}, asked for by Python itself",
            "Compare elements with ==, < and their kin, and combine them with &, |, tl.where.",
        )
    return True


def _no_number(self: Any) -> int:
    """Refuse to give the value of a tensor where Python wants a number that is known at compile time."""
    refuse(
        f"a tensor of type {self.type} where Python wants a number that is known at compile time",
        "Pass the number as a tl.constexpr.",
    )


def _transposed(self: Any) -> Any:
    return interpreter.interpreter_semantic.permute(self, (1, 0))


def _for_tensors_too(operator: Callable[..., Any]) -> Callable[..., Any]:
    """Make an operator of `tl.constexpr` leave tensors to the tensor's own one, as the compiler does."""

    @wraps(operator)
    def method(self: Any, other: Any) -> Any:
        return NotImplemented if isinstance(other, tl.tensor) else operator(self, other)

    return method


class StaticAssertion(AssertionError):
    """A failed `tl.static_assert`: the compiler refuses the kernel, and a tuner goes on to the next configuration."""


def _static_assert(condition: Any, message: Any = "") -> None:
    condition = unwrap(condition)
    if not isinstance(condition, bool):
        refuse("tl.static_assert of what is no boolean constant", "Compare values of type constexpr.")
    if not condition:
        raise StaticAssertion(message)


def _as_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of `tl.math` a method of tensors (`x.cos()`), which Triton's interpreter leaves out."""

    @wraps(function)
    def method(*args: Any, **keywords: Any) -> Any:
        return function(*args, **{**keywords, "_semantic": interpreter.interpreter_semantic})

    return method


def install() -> None:
    """Replace what Triton's interpreter made of the language."""
    for name, member in list(vars(tl.tensor).items()):
        if "_semantic" in getattr(getattr(member, "__signature__", None), "parameters", ()):
            setattr(tl.tensor, name, _as_method(member))
    tl.tensor.__bool__, tl.tensor.__index__ = _truth, _no_number
    tl.tensor.T = property(_transposed)
    tl.tensor.reduce, tl.tensor.associative_scan = tl.reduce, tl.associative_scan
    for module in (tl, tl.core):
        module.range, module.static_range = compiled_python.compiled_range, compiled_python.static_range
        module.static_assert, module.map_elementwise = _static_assert, map_elementwise
    for name in OPERATORS:
        operator = getattr(tl.constexpr, f"__{name}__")
        setattr(tl.constexpr, f"__{name}__", _for_tensors_too(operator))
