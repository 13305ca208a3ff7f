"""Attention of one decoding step in Llama 3.1 8B: one query of 32 heads against a cache of 8 heads.
Memory bound: the whole cache is read once for one token of each sequence."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 32
QUERY_HEADS = 32
KEY_HEADS = 8
CACHED = 8192
HEAD_DIM = 128


class Model(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)


def get_inputs() -> list[torch.Tensor]:
    query = torch.randn(BATCH, QUERY_HEADS, 1, HEAD_DIM)
    key, value = (torch.randn(BATCH, KEY_HEADS, CACHED, HEAD_DIM) for _ in range(2))
    return [query, key, value]


def get_init_inputs() -> list[int]:
    return []
