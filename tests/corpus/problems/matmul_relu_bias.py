"""ReLU of a product, then a bias."""

import torch
from torch import nn

M = 512
K = 512
N = 768


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(columns))

    def forward(self, a, b):
        return torch.relu(a @ b) + self.bias


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return [N]
