"""A matrix product of three unequal sizes."""

import torch
from torch import nn

M = 512
K = 1000
N = 768


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]
