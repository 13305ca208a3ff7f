"""Causal attention of a prefill in Llama 3.1 8B: grouped queries, 32 heads on 8 heads of keys and values.
Compute bound: the scores must stay on chip."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 2
QUERY_HEADS = 32
KEY_HEADS = 8
TOKENS = 4096
HEAD_DIM = 128


class Model(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


def get_inputs() -> list[torch.Tensor]:
    query = torch.randn(BATCH, QUERY_HEADS, TOKENS, HEAD_DIM)
    key, value = (torch.randn(BATCH, KEY_HEADS, TOKENS, HEAD_DIM) for _ in range(2))
    return [query, key, value]


def get_init_inputs() -> list[int]:
    return []
