"""Norms as a kernel computes them: from a mean in fp32.

PyTorch adds up in fp64 on a CPU. Where all numbers lie far from zero, half an ulp of their mean is more than its error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

NORMS = frozenset({"native_layer_norm", "native_group_norm"})
"""Operators that answer with what they normalized, the means, and the reciprocal deviations."""


def with_other_mean(
    name: str, answer: Sequence[torch.Tensor], args: Sequence[Any], rounded: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """The answer of one of `NORMS` with means that were rounded.

    Args:
        name: of the operator.
        answer: its answer.
        args: its arguments.
        rounded: rounds the means [any shape].
    """
    out, mean, rstd = answer
    off = (rounded(mean) - mean).nan_to_num(0.0, 0.0, 0.0) * rstd
    if name == "native_layer_norm":
        weight = args[2] if len(args) > 2 else None
        return (out - off * (1.0 if weight is None else weight)).to(out.dtype), mean, rstd
    weight, (samples, channels, _, groups) = args[1], args[3:7]
    per_channel = off.reshape(samples, groups, 1).expand(samples, groups, channels // groups).reshape(samples, channels)
    per_channel = per_channel * (1.0 if weight is None else weight)
    return (out - per_channel.reshape(*per_channel.shape, *[1] * (out.dim() - 2))).to(out.dtype), mean, rstd


def steps_of_sum(terms: int) -> int:
    """How many numbers a kernel adds one after another for a sum: each thread of a block of 256 has a share."""
    return math.ceil(terms / 256)
