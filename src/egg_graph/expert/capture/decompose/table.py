"""The decomposition table: composite ATen operator -> rule in pointwise operators and reductions. Imports torch.

Operators that a playbook or a library computes as a whole have no rule (linear, matmul, convolution, attention, scans,
pooling), and neither have activations that `codegen.expressions` writes. A rule that returns NotImplemented keeps its
operator.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from egg_graph.expert.capture.decompose.einsum import einsum
from egg_graph.expert.capture.decompose.losses import (
    bce_with_logits,
    binary_cross_entropy,
    cosine_similarity,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    pairwise_distance,
    smooth_l1_loss,
    triplet_margin_loss,
)
from egg_graph.expert.capture.decompose.norms import (
    batch_norm,
    batch_norm_of_planes,
    group_norm,
    instance_norm,
    layer_norm,
    log_softmax,
    logsumexp,
    rms_norm,
    softmax,
    vector_norm,
)
from egg_graph.expert.capture.graph import MOST_PARTS

aten = torch.ops.aten


def max_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return x.amax(dim, keepdim=keepdim), x.argmax(dim, keepdim=keepdim)


def min_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return x.amin(dim, keepdim=keepdim), x.argmin(dim, keepdim=keepdim)


def max_all(x: Tensor) -> Tensor:
    return x.amax(list(range(x.dim())))


def min_all(x: Tensor) -> Tensor:
    return x.amin(list(range(x.dim())))


def std(x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    return x.var(dim, correction=1 if correction is None else correction, keepdim=keepdim).sqrt()


def var_mean(
    x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    dims = list(range(x.dim())) if dim is None else dim
    return x.var(dims, correction=1 if correction is None else correction, keepdim=keepdim), x.mean(dims, keepdim)


def global_average(x: Tensor, size: Sequence[int]) -> Tensor:
    if any(s != 1 for s in size):
        return NotImplemented
    return x.mean(list(range(x.dim() - len(size), x.dim())), keepdim=True)


def log_sigmoid(x: Tensor) -> Tensor:
    return -torch.nn.functional.softplus(-x)


def broadcast_tensors(tensors: Sequence[Tensor]) -> list[Tensor]:
    shape = torch.broadcast_shapes(*(t.shape for t in tensors))
    return [t if t.shape == shape else t.expand(shape) for t in tensors]


def copy(held: Tensor, x: Tensor, non_blocking: bool = False) -> Tensor:
    """What `held.copy_(x)` leaves in `held`, in memory of its own."""
    x = x if x.shape == held.shape else x.expand(held.shape)
    return x.clone() if x.dtype == held.dtype else x.to(held.dtype)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Join as few as a kernel selects from; of many (a recurrence's steps) each would be one more call on the host."""
    if len(tensors) > MOST_PARTS:
        return NotImplemented
    return torch.cat([x.unsqueeze(dim) for x in tensors], dim)


TABLE: dict[Any, Callable[..., Any]] = {
    aten.softmax.int: softmax, aten.log_softmax.int: log_softmax, aten.logsumexp.default: logsumexp,
    aten.layer_norm.default: layer_norm, aten.rms_norm.default: rms_norm, aten.group_norm.default: group_norm,
    aten.instance_norm.default: instance_norm, aten._native_batch_norm_legit_functional.default: batch_norm,
    aten._native_batch_norm_legit.no_stats: batch_norm_of_planes,
    aten.multiply.Tensor: torch.mul, aten.subtract.Tensor: torch.sub, aten.divide.Tensor: torch.div,
    aten.linalg_vector_norm.default: vector_norm,
    aten.max.dim: max_dim, aten.min.dim: min_dim, aten.max.default: max_all, aten.min.default: min_all,
    aten.max.other: torch.maximum, aten.min.other: torch.minimum,
    aten.std.correction: std, aten.var_mean.correction: var_mean,
    aten.adaptive_avg_pool1d.default: global_average, aten.adaptive_avg_pool2d.default: global_average,
    aten.adaptive_avg_pool3d.default: global_average,
    aten.cross_entropy_loss.default: cross_entropy, aten.nll_loss_nd.default: nll_loss,
    aten.mse_loss.default: mse_loss, aten.l1_loss.default: l1_loss, aten.smooth_l1_loss.default: smooth_l1_loss,
    aten.huber_loss.default: huber_loss, aten.kl_div.default: kl_div,
    aten.binary_cross_entropy.default: binary_cross_entropy,
    aten.binary_cross_entropy_with_logits.default: bce_with_logits,
    aten.cosine_similarity.default: cosine_similarity, aten.pairwise_distance.default: pairwise_distance,
    aten.triplet_margin_loss.default: triplet_margin_loss,
    aten.log_sigmoid.default: log_sigmoid, aten.broadcast_tensors.default: broadcast_tensors,
    aten.copy.default: copy, aten.einsum.default: einsum, aten.stack.default: stack,
}  # fmt: skip
