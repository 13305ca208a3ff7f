"""Count the operations of one operator that multiplies matrices: attention by its shapes, the rest as PyTorch does."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

ATTENTION = frozenset(
    {
        torch.ops.aten._scaled_dot_product_flash_attention,
        torch.ops.aten._scaled_dot_product_efficient_attention,
        torch.ops.aten._scaled_dot_product_cudnn_attention,
    }
)
"""Operators of a GPU that compute attention in one piece; query, key and value are their first three arguments."""


def product_flops(operator: Any, args: Any, kwargs: Any, result: Any) -> float | None:
    """Count the multiplications and additions of one call; 0 for an operator that multiplies no matrices.

    Args:
        operator: the operator without overload (`torch.ops.aten.mm`), or a kernel for which PyTorch has a formula.
        args, kwargs, result: of the call.

    Returns:
        The count [flop], or None where PyTorch's formula fails on this call.
    """
    if operator in ATTENTION:
        return attention_flops(*args[:3])
    formula = flop_registry.get(operator)
    if formula is None:
        return 0.0
    try:
        return float(formula(*args, **kwargs, out_val=result))
    except Exception:  # noqa: BLE001 - a formula asserts on shapes that it does not foresee, though the operator runs
        return None


def attention_flops(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> float:
    """Count both products of attention, all scores included; keys and values may have fewer heads than the query.

    Args:
        query: [..., heads, queries, width of keys].
        key: [..., heads of keys, keys, width of keys].
        value: [..., heads of keys, keys, width of values].
    """
    rows = math.prod(query.shape[:-1])
    return 2.0 * rows * key.shape[-2] * (query.shape[-1] + value.shape[-1])
