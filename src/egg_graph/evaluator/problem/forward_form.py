"""The form of a reference that its sizes do not change: what its module holds, and which functions it calls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.batch_norms import WholeBatchNorms
from egg_graph.evaluator.problem.recurrences import WholeRecurrences
from egg_graph.evaluator.problem.reference import load_reference


@dataclass(frozen=True)
class Form:
    """What differs between two numbers of layers or of steps, and not between two sizes."""

    members: tuple[str, ...]
    """Names of parameters and buffers: its layers."""
    calls: tuple[str, ...]
    """Names of the functions that Python called and that returned tensors, in order: its steps."""


def forward_form(source: str, overrides: Mapping[str, int], like: Form | None = None) -> Form | None:
    """The form of a reference with these integers; None if it fails under fake tensors.

    Args:
        source: the reference's source.
        overrides: integers to replace, by knob.
        like: the form to look for; None is also returned, and sooner, where the reference has another one.
    """
    try:
        reference = load_reference(source, overrides)
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad(), WholeRecurrences(), WholeBatchNorms():
            model = reference.model(0)
            members = members_of(model)
            if like is not None and members != like.members:
                return None
            inputs = reference.inputs(0)
            with CalledFunctions(math.inf if like is None else len(like.calls)) as called:
                model(*inputs)
    except Exception:  # noqa: BLE001 - whatever fails, this shape is none that the reference has
        return None
    form = Form(members, tuple(called.names))
    return form if like is None or form == like else None


def members_of(model: torch.nn.Module) -> tuple[str, ...]:
    """Names of a module's parameters and buffers."""
    return (*(name for name, _ in model.named_parameters()), *(name for name, _ in model.named_buffers()))


class CalledFunctions(TorchFunctionMode):
    """Notes the names of functions that returned tensors.

    Args:
        most: end the forward with a `RuntimeError` at more calls than this.
    """

    def __init__(self, most: float = math.inf) -> None:
        super().__init__()
        self.most = most
        self.names: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = function(*args, **(kwargs or {}))
        if any(isinstance(x, torch.Tensor) for x in tree_leaves(answer)):
            self.names.append(getattr(function, "__name__", ""))
        if len(self.names) > self.most:
            raise RuntimeError("the forward has more steps than it is compared with")
        return answer
