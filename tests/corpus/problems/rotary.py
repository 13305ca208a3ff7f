"""Rotary position embedding, halves rotated."""

import torch
from torch import nn

BATCH = 2
HEADS = 8
LENGTH = 8192
WIDTH = 64


class Model(nn.Module):
    def forward(self, x, frequencies):
        positions = torch.arange(x.shape[2], device=x.device, dtype=torch.float32)
        angles = positions[:, None] * frequencies[None, :]
        cosine, sine = angles.cos(), angles.sin()
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1)


def get_inputs():
    half = WIDTH // 2
    frequencies = 10000.0 ** (-torch.arange(half) / half)
    return [torch.randn(BATCH, HEADS, LENGTH, WIDTH), frequencies * (1 + 0.01 * torch.rand(half))]
