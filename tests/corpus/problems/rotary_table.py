"""Rotary position embedding by a table, whose halves are equal."""

import torch
from torch import nn

HEADS = 16
LENGTH = 4096
HALF = 32


class Model(nn.Module):
    def forward(self, x, cosine, sine):
        a, b = x.chunk(2, dim=-1)
        return x * cosine + torch.cat([-b, a], dim=-1) * sine


def get_inputs():
    angles = torch.rand(LENGTH, HALF) * 6.0
    angles = torch.cat([angles, angles], dim=-1)
    return [torch.randn(HEADS, LENGTH, 2 * HALF), angles.cos(), angles.sin()]
