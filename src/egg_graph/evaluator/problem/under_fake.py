"""What a reference needs under fake tensors: its numbers, and none of the time that initialisation takes.

A fake tensor has a shape and no values. So nothing needs to be drawn for it, but a constructor that reads a number from
a tensor that it has just counted out (`[x.item() for x in torch.linspace(0, rate, depth)]`) must find that number. What
reads others, or makes sizes of them (`torch.bincount`), is made on real tensors.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeCopyMode,
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.overrides import TorchFunctionMode

from egg_graph.schema import BadInput

MOST_NUMBERS = 4096
"""Elements up to which a counted-out tensor keeps its values."""
NEEDS_VALUES = (DataDependentOutputException, DynamicOutputShapeException)
"""What an operator raises that needs the values of a fake tensor."""
COUNTED_OUT = frozenset({torch.arange, torch.linspace, torch.logspace})
"""Functions that make a tensor from numbers alone, whose values a constructor may read."""
INITIALISING = frozenset(
    {
        *(torch.nn.init.uniform_, torch.nn.init.normal_, torch.nn.init.constant_, torch.nn.init.kaiming_uniform_),
        *(torch.Tensor.uniform_, torch.Tensor.normal_, torch.Tensor.fill_, torch.Tensor.zero_),
    }
)
"""Functions that fill their first argument and return it; they change nothing about a tensor without values."""
PYTORCHS_APPLY = torch.nn.Module._apply
"""What converts the tensors of a module, as PyTorch has it."""
CONVERTED = "egg_graph_converted"
"""Attribute of a fake parameter: what it was converted to."""


def made(make: Callable[[], Any]) -> Any:
    """Call a function of a reference; on real tensors where it fails because fake ones hold no values.

    What it makes on real tensors is returned with fake ones, of the fake mode that is active.

    Raises:
        BadInput: as `make`, if it fails in another way.
    """
    try:
        return make()
    except BadInput as error:
        fake_mode = detect_fake_mode()
        if fake_mode is None or not isinstance(error.__cause__, NEEDS_VALUES):
            raise
    with unset_fake_temporarily():
        real = make()
    with FakeCopyMode(fake_mode):
        return copy.deepcopy(real)


def fake_construction() -> AbstractContextManager[Any]:
    """The mode to call a constructor under where a fake mode is active; no mode at all where none is."""
    fake_mode = detect_fake_mode()
    return nullcontext() if fake_mode is None else FakeConstruction(fake_mode)


class FakeConstruction(TorchFunctionMode):
    """While active, keeps the values of small counted-out tensors and skips the initialisation of fake ones.

    Args:
        fake_mode: the active fake mode.
    """

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        super().__init__()
        self.fake_mode = fake_mode
        torch.nn.Module._apply = _apply

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in INITIALISING and args and _has_no_values(args[0]):
            return args[0]
        answer = function(*args, **(kwargs or {}))
        if function in COUNTED_OUT and _has_no_values(answer) and answer.numel() <= MOST_NUMBERS:
            return self._with_values(function, args, kwargs or {})
        return answer

    def _with_values(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Make a tensor for real, and a fake one that knows these values until somebody writes to it."""
        with unset_fake_temporarily():
            real = function(*args, **kwargs)
        return self.fake_mode.fake_tensor_converter.from_real_tensor(self.fake_mode, real, make_constant=True)


def _apply(self: torch.nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> torch.nn.Module:
    """`Module._apply`, on which `to`, `half` and the like rest, also for fake parameters.

    PyTorch's own swaps these with what `fn` returns, and cannot, because the fake mode still refers to them.
    """
    own = [*self._parameters.values(), *self._buffers.values()]
    if not any(isinstance(x, FakeTensor) for x in own):
        return PYTORCHS_APPLY(self, fn, recurse)
    for child in self.children() if recurse else ():
        child._apply(fn)
    with torch.no_grad():
        for name, parameter in self._parameters.items():
            self._parameters[name] = None if parameter is None else _converted(parameter, fn)
        for name, buffer in self._buffers.items():
            self._buffers[name] = None if buffer is None else fn(buffer)
    return self


def _converted(parameter: torch.nn.Parameter, fn: Callable[[torch.Tensor], torch.Tensor]) -> torch.nn.Parameter:
    """What `fn` makes of a parameter; the same for each module that shares it."""
    if (known := getattr(parameter, CONVERTED, None)) is not None:
        return known
    applied = fn(parameter)
    if applied is parameter:
        return parameter
    made = torch.nn.Parameter(applied, parameter.requires_grad)
    setattr(parameter, CONVERTED, made)
    return made


def _has_no_values(x: Any) -> bool:
    return isinstance(x, FakeTensor) and x.constant is None
