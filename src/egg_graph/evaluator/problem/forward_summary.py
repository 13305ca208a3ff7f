"""What the reference does at full shape, told without memory or time: operators, bytes, flops, and their floor."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.flops import flop_counter
from egg_graph.evaluator.problem.precision import CAST, cast_inputs, cast_model
from egg_graph.evaluator.problem.reference import Reference, one_line, where_in
from egg_graph.evaluator.wire.exchange import describe, flatten
from egg_graph.schema import BadInput, Baseline, KernelTask

REAL_LIMIT = 1 << 28
"""Elements of input up to which a reference that defies fake tensors is run for real."""


@dataclass
class _Record(TorchDispatchMode):
    """Operators in order, and the bytes that eager moves: operands read, results written, views free."""

    operators: list[str] = field(default_factory=list)
    moved: float = 0.0

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = func(*args, **(kwargs or {}))
        if func.namespace == "aten" and not _is_view(func):
            self.operators.append(str(func))
            self.moved += sum(_bytes(x) for x in tree_leaves((args, kwargs, answer)) if isinstance(x, torch.Tensor))
        return answer


def survey(task: KernelTask, reference: Reference) -> Baseline:
    """The part of a Baseline that needs no run at full shape.

    Raises:
        BadInput: if the reference fails at its own shape.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    try:
        return _survey(task, reference, FakeTensorMode(allow_non_fake_inputs=True))
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
        return _survey(task, reference, nullcontext())
    except BadInput:
        raise
    except Exception as error:
        where = where_in(error, *reference.paths)
        raise BadInput(f"reference{where}: forward fails at its own shape: {one_line(error)}") from error


def _survey(task: KernelTask, reference: Reference, mode: AbstractContextManager[Any]) -> Baseline:
    with mode, torch.no_grad():
        model = cast_model(reference.model(0), task.precision)
        inputs = cast_inputs(reference.inputs(0), CAST.get(task.precision))
        counter, record = flop_counter(), _Record()
        with counter, record:
            _, outputs = flatten(model(*inputs))
    tensors = [x for x in tree_leaves((inputs, outputs)) if isinstance(x, torch.Tensor)]
    held = [*model.parameters(), *model.buffers()]
    compulsory = float(sum(_bytes(x) for x in (*tensors, *held)))
    flops = float(counter.get_total_flops())
    floor = max(compulsory / task.target.figure("dram_bandwidth"), flops / task.target.peak(task.precision))
    return Baseline(
        task=task.digest,
        operators=tuple(record.operators),
        inputs={n: describe(x) for n, x in zip(reference.forward_names(len(inputs)), inputs, strict=True)},
        outputs={f"output_{i}" if len(outputs) > 1 else "output": describe(x) for i, x in enumerate(outputs)},
        parameters=sum(p.numel() for p in model.parameters()),
        compulsory_bytes=compulsory,
        eager_bytes=record.moved,
        flops=flops,
        floor_ms=floor * 1e3,
    )


def _bytes(x: torch.Tensor) -> int:
    return x.numel() * x.element_size()


def _is_view(func: Any) -> bool:
    name = func.overloadpacket.__name__
    aliases = any(a.alias_info is not None and not a.alias_info.is_write for a in func._schema.arguments)
    return aliases or name in ("empty", "empty_like", "empty_strided", "new_empty", "_unsafe_view")
