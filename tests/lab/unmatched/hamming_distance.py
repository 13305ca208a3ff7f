"""Hamming distances between all pairs of two sets of binary codes, packed into words of 32 bits."""

import torch
from torch import nn

QUERIES = 1024
CODES = 4096
WORDS = 8


class Model(nn.Module):
    def forward(self, queries: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        different = queries[:, None] ^ codes[None]
        bits = torch.zeros_like(different)
        for place in range(32):
            bits += (different >> place) & 1
        return bits.sum(dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [
        torch.randint(0, 2**31 - 1, (QUERIES, WORDS), dtype=torch.int32),
        torch.randint(0, 2**31 - 1, (CODES, WORDS), dtype=torch.int32),
    ]


def get_init_inputs() -> list[int]:
    return []
