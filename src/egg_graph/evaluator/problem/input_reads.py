"""Which inputs the reference certainly reads as a whole, whatever they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.reference import Reference

READS_ALL = frozenset(
    {"add", "sub", "rsub", "mul", "div", "neg", "abs", "exp", "log", "sqrt", "rsqrt", "sigmoid", "tanh", "relu", "gelu"}
    | {"silu", "elu", "leaky_relu", "softplus", "hardtanh", "hardswish", "hardsigmoid", "selu", "mish", "erf", "pow"}
    | {"sum", "mean", "var", "var_mean", "std", "prod", "cumsum", "cumprod", "linalg_vector_norm", "norm", "logsumexp"}
    | {"_softmax", "_log_softmax", "native_layer_norm", "native_group_norm", "native_batch_norm", "amax", "amin"}
    | {"_native_batch_norm_legit", "_native_batch_norm_legit_functional", "cudnn_batch_norm", "max", "min", "argmax"}
    | {"argmin", "mm", "addmm", "bmm", "baddbmm", "mv", "dot", "square"}
    | {"sin", "cos", "reciprocal", "sign", "_fused_rms_norm", "mse_loss", "smooth_l1_loss", "huber_loss"}
)
"""Operators that use every element. (A convolution or a pooling that strides further than it looks does not.)"""
ZEROS, DISTINCT, SAMPLE = 0.01, 0.2, 4096
"""Zeros among an input's elements from which on, and distinct ones in a sample up to which a kernel might know some
without reading them."""


def wholly_read(reference: Reference, case: Case) -> set[int]:
    """Numbers of the inputs.

    Args:
        reference: at full shape.
        case: at any shape: the content of its inputs tells whether they have a structure.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        model, inputs = reference.model(0), reference.inputs(0)
        reads = Reads(inputs)
        with reads:
            model(*inputs)
    return {index for index in reads.read if not structured(case.inputs[index])}


class Reads(TorchDispatchMode):
    """Which of some inputs enter an operator that uses every element, by number."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        super().__init__()
        self.owners = {_memory(x): index for index, x in enumerate(inputs) if isinstance(x, torch.Tensor)}
        self.read: set[int] = set()

    def owns(self, x: torch.Tensor) -> bool:
        """Whether a tensor lies in the memory of an input."""
        return _memory(x) in self.owners

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in READS_ALL:
            for x in tree_leaves((args, kwargs)):
                if isinstance(x, torch.Tensor) and x.numel() * x.element_size() >= x.untyped_storage().nbytes():
                    self.read |= {self.owners[key] for key in [_memory(x)] if key in self.owners}
        return answer


def _memory(x: torch.Tensor) -> int:
    return int(x.untyped_storage()._cdata)


def structured(x: torch.Tensor) -> bool:
    """Whether a kernel might know some elements of an input without reading them."""
    if not x.is_floating_point() or not x.numel() or float((x == 0).double().mean()) > ZEROS:
        return True
    sample = x.reshape(-1)[:: max(1, x.numel() // SAMPLE)]
    if sample.unique().numel() < DISTINCT * sample.numel():
        return True
    return x.dim() >= 2 and x.shape[-1] == x.shape[-2] and bool(torch.equal(x, x.transpose(-1, -2)))
