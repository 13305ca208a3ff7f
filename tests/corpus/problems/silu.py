"""Sigmoid-weighted values, some of them far from zero."""

import torch
from torch import nn

N = 1 << 20


class Model(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


def get_inputs():
    return [torch.randn(N) * 60.0]
