"""Rotary position embedding of Llama 3.1 8B: rotate queries of 32 heads and keys of 8 by the angles of their positions.
Memory bound: the second half of a head is rotated against the first."""

import torch
from torch import nn

BATCH = 4
QUERY_HEADS = 32
KEY_HEADS = 8
TOKENS = 4096
HEAD_DIM = 128


class Model(nn.Module):
    def forward(
        self, query: torch.Tensor, key: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.rotate(query, cosine, sine), self.rotate(key, cosine, sine)

    def rotate(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * cosine + torch.cat((-second, first), dim=-1) * sine


def get_inputs() -> list[torch.Tensor]:
    query = torch.randn(BATCH, QUERY_HEADS, TOKENS, HEAD_DIM)
    key = torch.randn(BATCH, KEY_HEADS, TOKENS, HEAD_DIM)
    angles = torch.rand(TOKENS, HEAD_DIM) * 6.2831853
    return [query, key, torch.cos(angles), torch.sin(angles)]


def get_init_inputs() -> list[int]:
    return []
