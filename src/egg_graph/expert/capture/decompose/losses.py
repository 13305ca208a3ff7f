"""Write losses in primitives: an elementwise expression and a reduction."""

from typing import Any

import torch
from torch import Tensor

from egg_graph.expert.capture.decompose.norms import log_softmax, vector_norm

REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM = 0, 1, 2


def _reduced(loss: Tensor, reduction: int) -> Tensor:
    if reduction == REDUCE_MEAN:
        return loss.mean()
    return loss.sum() if reduction == REDUCE_SUM else loss


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
