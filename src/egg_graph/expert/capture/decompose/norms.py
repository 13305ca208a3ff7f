"""Write softmax, log-softmax, logsumexp and the norms in primitives."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


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
    x: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, training: bool, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    """Normalize by the batch; return (answer, batch's mean, its rstd, new running mean, new running variance).

    Over planes in fp32 the operator stays whole: `batch_norms.write_out_batch_norms` does the same in less time.
    """
    if not training:
        return NotImplemented
    tensors = (x, weight, bias, mean, var)
    if x.dim() > 2 and all(t is not None and t.dtype == torch.float32 for t in tensors):
        return NotImplemented
    if x.dim() == 2:
        return _batch_norm_of_rows(x, weight, bias, mean, var, momentum, eps)
    out, batch_mean, rstd = batch_norm_of_planes(x, weight, bias, training, momentum, eps)
    unbiased = x.var(_all_but_channels(x), correction=1)
    new_mean = (mean * (1 - momentum) + batch_mean * momentum).to(mean.dtype)
    return out, batch_mean, rstd, new_mean, var * (1 - momentum) + unbiased * momentum


def batch_norm_of_planes(
    x: Tensor, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize [samples, channels, …] by the batch. What is kept by channel is in fp32 at every precision."""
    if not training or x.dim() < 3:
        return NotImplemented
    dims = _all_but_channels(x)
    mean = x.mean(dims, dtype=torch.float32)
    rstd = torch.rsqrt(x.var(dims, correction=0) + eps)
    scale = (rstd if weight is None else rstd * weight).to(torch.float32)
    shape = [-1] + [1] * (x.dim() - 2)
    out = (x - mean.view(shape)) * scale.view(shape)
    out = out if bias is None else out + bias.view(shape)
    return out.to(x.dtype), mean, rstd


def _all_but_channels(x: Tensor) -> list[int]:
    return [d for d in range(x.dim()) if d != 1]


def _batch_norm_of_rows(
    x: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    """Normalize a matrix, whose statistics are plain column reductions."""
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
