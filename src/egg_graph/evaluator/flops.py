"""Counting the products of a forward, attention on a CPU included."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count


def _attention(query: Any, key: Any, value: Any, *rest: Any, out_shape: Any = None, **options: Any) -> int:
    return sdpa_flop_count(query, key, value)


def flop_counter() -> FlopCounterMode:
    """torch's own counter, and the one attention operator that it leaves out."""
    mapping = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention}
    return FlopCounterMode(display=False, custom_mapping=mapping)
