"""Causal scaled-dot-product attention of a prefill: 32 heads of 128 features over 2048 tokens.
Compute bound: 0.14 TFLOP below the diagonal; the 2 GB of scores must stay on chip."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 4
HEADS = 32
TOKENS = 2048
HEAD_FEATURES = 128


class Model(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, HEADS, TOKENS, HEAD_FEATURES) for _ in range(3)]


def get_init_inputs() -> list[int]:
    return []
