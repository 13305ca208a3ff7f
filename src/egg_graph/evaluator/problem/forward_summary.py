"""Summarize the reference's forward at full shape without running it there: operators, bytes, flops, least time."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.flops import NecessaryFlops
from egg_graph.evaluator.problem.precision import cast_as_policy_says, cast_model
from egg_graph.evaluator.problem.recurrences import Recurrence, WholeRecurrences
from egg_graph.evaluator.problem.reference import Reference, one_line, where_in
from egg_graph.evaluator.wire.exchange import describe, flatten
from egg_graph.schema import BadInput, Baseline, KernelTask

REAL_LIMIT = 1 << 28
"""Run a reference that fails under fake tensors on real ones if its inputs have at most this many elements."""


@dataclass
class _EagerTraffic(TorchDispatchMode):
    """While active, records the operators that run and the bytes that they move. Views cost nothing."""

    operators: list[str] = field(default_factory=list)
    """Names with overload, in the order in which they ran."""
    moved: float = 0.0
    """Bytes of operands read and results written."""
    recurrent_flops: float = 0.0
    """Flops of the recurrences, which run under fake tensors as one operator each."""

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = func(*args, **(kwargs or {}))
        if func.namespace == "aten" and not _is_view(func):
            self.operators.append(str(func))
            self.moved += sum(_bytes(x) for x in tree_leaves((args, kwargs, answer)) if isinstance(x, torch.Tensor))
        return answer

    def hear(self, recurrence: Recurrence) -> None:
        """Record a recurrence, whose steps keep their state in fast memory at best."""
        self.operators.append(recurrence.name)
        self.moved += sum(_bytes(x) for x in recurrence.tensors)
        self.recurrent_flops += recurrence.flops


def summarize_forward(task: KernelTask, reference: Reference) -> Baseline:
    """Fill in the fields of a Baseline that need no timing and no check of the problem.

    Args:
        task: the task, for its precision and target GPU.
        reference: its reference at full shape.

    Raises:
        BadInput: if the reference fails at its own shape.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    try:
        return _summarize(task, reference, FakeTensorMode(allow_non_fake_inputs=True))
    except BadInput:
        raise
    except Exception as error:
        with FakeTensorMode(allow_non_fake_inputs=True):
            inputs = [x for x in tree_leaves(reference.inputs(0)) if isinstance(x, torch.Tensor)]
        if sum(x.numel() for x in inputs) > REAL_LIMIT:
            raise BadInput(
                f"reference: forward fails at its own shape under fake tensors: {one_line(error)}"
            ) from error
    try:
        return _summarize(task, reference, nullcontext())
    except BadInput:
        raise
    except Exception as error:
        where = where_in(error, *reference.paths)
        raise BadInput(f"reference{where}: forward fails at its own shape: {one_line(error)}") from error


def _summarize(task: KernelTask, reference: Reference, mode: AbstractContextManager[Any]) -> Baseline:
    with mode, torch.no_grad():
        model = cast_model(reference.model(0), task.precision)
        inputs = cast_as_policy_says(reference.inputs(0), task.precision)
        counter, traffic = NecessaryFlops(), _EagerTraffic()
        with counter, traffic, WholeRecurrences(traffic.hear):
            _, outputs = flatten(model(*inputs))
    tensors = [x for x in tree_leaves((inputs, outputs)) if isinstance(x, torch.Tensor)]
    held = [*model.parameters(), *model.buffers()]
    compulsory = float(sum(_bytes(x) for x in (*tensors, *held)))
    flops = float(counter.get_total_flops()) + traffic.recurrent_flops
    floor = max(compulsory / task.target.figure("dram_bandwidth"), flops / task.target.peak(task.precision))
    return Baseline(
        task=task.digest,
        operators=tuple(traffic.operators),
        inputs={n: describe(x) for n, x in zip(reference.forward_names(len(inputs)), inputs, strict=True)},
        outputs={f"output_{i}" if len(outputs) > 1 else "output": describe(x) for i, x in enumerate(outputs)},
        parameters=sum(p.numel() for p in model.parameters()),
        compulsory_bytes=compulsory,
        eager_bytes=traffic.moved,
        flops=flops,
        uncounted=tuple(sorted(counter.uncounted)),
        floor_ms=floor * 1e3,
    )


def _bytes(x: torch.Tensor) -> int:
    return x.numel() * x.element_size()


def _is_view(func: Any) -> bool:
    """Whether an operator returns a view or memory without content."""
    name = func.overloadpacket.__name__
    aliases = any(a.alias_info is not None and not a.alias_info.is_write for a in func._schema.arguments)
    return aliases or name in ("empty", "empty_like", "empty_strided", "new_empty", "_unsafe_view")
