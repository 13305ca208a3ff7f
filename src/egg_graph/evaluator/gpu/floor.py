"""The time that no kernel can undercut, from counts that are certain: an alarm, so rather too low than too high.

Only inputs that the reference certainly reads as a whole count: those that enter an operator which uses every element,
and whose content has no structure (zeros, symmetry, repetition) that would let a kernel read less of them. Weights do
not count, for what is derived from them may be kept; of the outputs, only what the L2 cache cannot hold back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.exchange import flatten
from egg_graph.schema import Finding, Hardware

CERTAIN = 0.9
"""Part of the floor below which a time is impossible: data sheets round."""
SIMILAR_MEMORY = 0.15
SAMPLE = 4096
SMALL = 1 << 20
"""Bytes; an input smaller than that does not matter."""
READS_ALL = frozenset(
    {"add", "sub", "rsub", "mul", "div", "neg", "abs", "exp", "log", "sqrt", "rsqrt", "sigmoid", "tanh", "relu", "gelu"}
    | {"silu", "elu", "leaky_relu", "softplus", "hardtanh", "hardswish", "hardsigmoid", "selu", "mish", "erf", "pow"}
    | {"sum", "mean", "var", "var_mean", "std", "prod", "cumsum", "cumprod", "linalg_vector_norm", "norm", "logsumexp"}
    | {"_softmax", "_log_softmax", "native_layer_norm", "native_group_norm", "native_batch_norm", "amax", "amin"}
    | {"_native_batch_norm_legit", "_native_batch_norm_legit_functional", "cudnn_batch_norm", "max", "min", "argmax"}
    | {"argmin", "convolution", "mm", "addmm", "bmm", "baddbmm", "mv", "dot", "avg_pool2d", "avg_pool3d", "square"}
    | {"sin", "cos", "reciprocal", "sign", "_fused_rms_norm", "mse_loss", "smooth_l1_loss", "huber_loss"}
)
VIEWS = frozenset({"view", "_unsafe_view", "t", "transpose", "permute", "unsqueeze", "squeeze", "detach", "alias"})


@dataclass(frozen=True)
class Floor:
    """Bytes that must cross to or from DRAM in one forward, and the rate at which they can."""

    bytes: float
    bandwidth: float

    @property
    def milliseconds(self) -> float:
        return 1e3 * self.bytes / self.bandwidth if self.bandwidth else 0.0

    def alarm(self, milliseconds: float) -> Finding | None:
        """A finding where a time is not possible."""
        if not self.bytes or milliseconds >= CERTAIN * self.milliseconds:
            return None
        rate = self.bytes / milliseconds / 1e6
        return Finding(
            kind="below_roofline",
            message=f"over-HBM-peak alarm: {milliseconds:.4g} ms for {self.bytes / 1e6:.1f} MB that must be moved is "
            f"{rate:.0f} GB/s, where the memory's peak is {self.bandwidth / 1e9:.0f} GB/s: the work was not done in "
            "the time that was measured",
        )


@dataclass
class _Reads(TorchDispatchMode):
    """Which of some tensors enter an operator that uses every element."""

    owners: dict[int, int]
    """By storage, the number of the input."""
    read: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in READS_ALL:
            for x in tree_leaves((args, kwargs)):
                if isinstance(x, torch.Tensor):
                    number = self.owners.get(x.untyped_storage().data_ptr())
                    if number is not None and x.numel() * x.element_size() >= x.untyped_storage().nbytes():
                        self.read.add(number)
        return answer


def floor_of(model: Any, inputs: list[Any], hardware: Hardware) -> Floor:
    """The floor of one forward on the GPU at hand.

    Args:
        model: the reference; it is run once.
        inputs: its arguments, on the device.
        hardware: the task's target; where the GPU at hand is another one, there is no floor.
    """
    if not _is_at_hand(hardware):
        return Floor(0.0, 0.0)
    tensors = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
    owners = {x.untyped_storage().data_ptr(): i for i, x in enumerate(tensors) if isinstance(x, torch.Tensor)}
    reads = _Reads(owners)
    with torch.no_grad(), reads:
        outputs = [x for x in flatten(model(*tensors))[1] if isinstance(x, torch.Tensor)]
    given = [x for i, x in enumerate(inputs) if i in reads.read and not _structured(x)]
    written = sum(x.numel() * x.element_size() for x in outputs if x.untyped_storage().data_ptr() not in owners)
    held_back = torch.cuda.get_device_properties(0).L2_cache_size
    moved = sum(x.numel() * x.element_size() for x in given) + max(0, written - held_back)
    return Floor(float(moved), hardware.figure("dram_bandwidth"))


def _is_at_hand(hardware: Hardware) -> bool:
    """Whether the target's data sheet describes this GPU."""
    if not torch.cuda.is_available() or "dram_bandwidth" not in hardware.figures:
        return False
    properties = torch.cuda.get_device_properties(0)
    if hardware.arch != f"sm_{properties.major}{properties.minor}" or "dram_capacity" not in hardware.figures:
        return False
    capacity = hardware.figure("dram_capacity")
    return abs(properties.total_memory - capacity) < SIMILAR_MEMORY * capacity


def _structured(x: torch.Tensor) -> bool:
    """Whether a kernel might know some elements without reading them."""
    if x.numel() * x.element_size() < SMALL or not x.is_floating_point():
        return True
    flat = x.reshape(-1)
    step = max(1, flat.numel() // SAMPLE)
    sample = flat[::step]
    if sample.unique().numel() < 0.2 * sample.numel() or float((x == 0).double().mean()) > 0.01:
        return True
    square = x.dim() >= 2 and x.shape[-1] == x.shape[-2]
    return square and bool(torch.equal(x, x.transpose(-1, -2)))
