"""Attention between all pixels of an image."""

import torch
import torch.nn as nn

IMAGES = 2
HEADS = 4
SIDE = 64
HEAD_DIM = 64


class Model(nn.Module):
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1) @ v


def get_inputs():
    return [torch.randn(IMAGES, HEADS, SIDE * SIDE, HEAD_DIM) for _ in range(3)]
