"""Composite ATen operators rewritten in the primitives that the playbooks fuse: pointwise operators and reductions.

Kept whole are the anchors that a playbook or a library computes as one (linear, matmul, convolution, attention, scans,
pooling) and the activations that `expressions` writes. A rule that returns NotImplemented keeps its operator.
Imports torch; only the capturing child process loads it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM = 0, 1, 2


def _reduced(loss: Tensor, reduction: int) -> Tensor:
    if reduction == REDUCE_MEAN:
        return loss.mean()
    return loss.sum() if reduction == REDUCE_SUM else loss


# ------------------------------------------------------------------------------------------- softmax and friends


def softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    x = x if dtype is None else x.to(dtype)
    e = torch.exp(x - x.amax(dim, keepdim=True))
    return e / e.sum(dim, keepdim=True)


def log_softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    x = x if dtype is None else x.to(dtype)
    shifted = x - x.amax(dim, keepdim=True)
    return shifted - torch.exp(shifted).sum(dim, keepdim=True).log()


def logsumexp(x: Tensor, dim: Sequence[int], keepdim: bool = False) -> Tensor:
    if len(dim) != 1:
        return NotImplemented
    top = x.amax(dim, keepdim=True)
    top = torch.where(top.abs() == float("inf"), 0.0, top)
    total = torch.exp(x - top).sum(dim, keepdim=True).log() + top
    return total if keepdim else total.squeeze(dim[0])


# --------------------------------------------------------------------------------------------------------- norms


def _standardized(x: Tensor, dims: Sequence[int], eps: float) -> Tensor:
    mean = x.mean(dims, keepdim=True)
    var = x.var(dims, correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(var + eps)


def layer_norm(
    x: Tensor, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, _cudnn: bool = True
) -> Tensor:
    out = _standardized(x, list(range(x.dim() - len(shape), x.dim())), eps)
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def rms_norm(x: Tensor, shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Tensor:
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    out = x * torch.rsqrt((x * x).mean(list(range(x.dim() - len(shape), x.dim())), keepdim=True) + eps)
    return out if weight is None else out * weight


def _per_channel(x: Tensor, weight: Any, bias: Any) -> Tensor:
    shape = [-1] + [1] * (x.dim() - 2)
    x = x if weight is None else x * weight.view(shape)
    return x if bias is None else x + bias.view(shape)


def group_norm(
    x: Tensor, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, _cudnn: bool = True
) -> Tensor:
    grouped = x.reshape(x.shape[0], groups, x.numel() // (x.shape[0] * groups))
    return _per_channel(_standardized(grouped, [2], eps).view(x.shape), weight, bias)


def instance_norm(
    x: Tensor, weight: Any, bias: Any, mean: Any, var: Any, use_input_stats: bool,
    momentum: float, eps: float, _cudnn: bool,
) -> Tensor:  # fmt: skip
    if not use_input_stats or mean is not None or var is not None:
        return NotImplemented
    grouped = x.reshape(x.shape[0], x.shape[1], x.numel() // (x.shape[0] * x.shape[1]))
    return _per_channel(_standardized(grouped, [2], eps).view(x.shape), weight, bias)


def batch_norm(
    x: Tensor, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    """Of a matrix, where the statistics are plain column reductions; of images it stays the library's."""
    if x.dim() != 2 or not training:
        return NotImplemented
    batch_mean, batch_var = x.mean([0]), x.var([0], correction=0)
    rstd = torch.rsqrt(batch_var + eps)
    out = _per_channel((x - batch_mean) * rstd, weight, bias)
    unbiased = batch_var * (x.shape[0] / max(x.shape[0] - 1, 1))
    new_mean = mean * (1 - momentum) + batch_mean * momentum
    return out, batch_mean, rstd, new_mean, var * (1 - momentum) + unbiased * momentum


def vector_norm(
    x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    x = x if dtype is None else x.to(dtype)
    dims = list(range(x.dim())) if dim is None else dim
    if ord == 2:
        return (x * x).sum(dims, keepdim=keepdim).sqrt()
    if ord == 1:
        return x.abs().sum(dims, keepdim=keepdim)
    if ord == float("inf"):
        return x.abs().amax(dims, keepdim=keepdim)
    return NotImplemented


# ---------------------------------------------------------------------------------------------------- reductions


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


# -------------------------------------------------------------------------------------------------------- losses


def cross_entropy(
    x: Tensor, target: Tensor, weight: Any = None, reduction: int = 1, ignore_index: int = -100, smoothing: float = 0.0
) -> Tensor:
    if weight is not None or smoothing != 0.0 or target.is_floating_point() or x.dim() < 2:
        return NotImplemented
    return nll_loss(log_softmax(x, 1), target, None, reduction, ignore_index)


def nll_loss(logp: Tensor, target: Tensor, weight: Any = None, reduction: int = 1, ignore_index: int = -100) -> Tensor:
    if weight is not None or logp.dim() < 2:
        return NotImplemented
    kept = target != ignore_index
    picked = torch.gather(logp, 1, torch.where(kept, target, 0).unsqueeze(1)).squeeze(1)
    loss = torch.where(kept, -picked, 0.0)
    if reduction == REDUCE_MEAN:
        return loss.sum() / kept.to(logp.dtype).sum()
    return _reduced(loss, reduction)


def mse_loss(x: Tensor, y: Tensor, reduction: int = 1) -> Tensor:
    d = x - y
    return _reduced(d * d, reduction)


def l1_loss(x: Tensor, y: Tensor, reduction: int = 1) -> Tensor:
    return _reduced((x - y).abs(), reduction)


def smooth_l1_loss(x: Tensor, y: Tensor, reduction: int = 1, beta: float = 1.0) -> Tensor:
    d = (x - y).abs()
    loss = d if beta == 0 else torch.where(d < beta, 0.5 / beta * d * d, d - 0.5 * beta)
    return _reduced(loss, reduction)


def huber_loss(x: Tensor, y: Tensor, reduction: int = 1, delta: float = 1.0) -> Tensor:
    d = (x - y).abs()
    return _reduced(torch.where(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta)), reduction)


def kl_div(x: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    if log_target:
        return _reduced(target.exp() * (target - x), reduction)
    entropy = torch.where(target == 0, 0.0, target * target.log())
    return _reduced(entropy - target * x, reduction)


def binary_cross_entropy(x: Tensor, y: Tensor, weight: Any = None, reduction: int = 1) -> Tensor:
    if weight is not None:
        return NotImplemented
    return _reduced((y - 1) * (1 - x).log().clamp_min(-100.0) - y * x.log().clamp_min(-100.0), reduction)


def bce_with_logits(x: Tensor, y: Tensor, weight: Any = None, pos_weight: Any = None, reduction: int = 1) -> Tensor:
    if weight is not None or pos_weight is not None:
        return NotImplemented
    return _reduced(x.clamp_min(0.0) - x * y + torch.log1p(torch.exp(-x.abs())), reduction)


def cosine_similarity(x: Tensor, y: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    norms = (x * x).sum(dim).sqrt().clamp_min(eps) * (y * y).sum(dim).sqrt().clamp_min(eps)
    return (x * y).sum(dim) / norms


def pairwise_distance(x: Tensor, y: Tensor, p: float = 2, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    return vector_norm(x - y + eps, p, [-1], keepdim)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor,
    margin: float = 1.0, p: float = 2, eps: float = 1e-6, swap: bool = False, reduction: int = 1,
) -> Tensor:  # fmt: skip
    if p not in (1, 2):
        return NotImplemented
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = torch.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduced((margin + pairwise_distance(anchor, positive, p, eps) - far).clamp_min(0.0), reduction)


# ---------------------------------------------------------------------------------------------------------- other


def log_sigmoid(x: Tensor) -> Tensor:
    return -torch.nn.functional.softplus(-x)


def broadcast_tensors(tensors: Sequence[Tensor]) -> list[Tensor]:
    shape = torch.broadcast_shapes(*(t.shape for t in tensors))
    return [t if t.shape == shape else t.expand(shape) for t in tensors]


def by_own_rule(op: Any) -> Callable[..., Any]:
    """The decomposition that ATen itself has for a composite operator."""
    return lambda *args, **kwargs: op.decompose(*args, **kwargs)


TABLE: dict[Any, Callable[..., Any]] = {
    aten.softmax.int: softmax, aten.log_softmax.int: log_softmax, aten.logsumexp.default: logsumexp,
    aten.layer_norm.default: layer_norm, aten.rms_norm.default: rms_norm, aten.group_norm.default: group_norm,
    aten.instance_norm.default: instance_norm, aten._native_batch_norm_legit_functional.default: batch_norm,
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
    aten.einsum.default: by_own_rule(aten.einsum.default),
}  # fmt: skip
