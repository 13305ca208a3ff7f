"""A linear layer and ReLU."""

import torch
from torch import nn

ROWS = 512
INNER = 1000
COLUMNS = 768


class Model(nn.Module):
    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(ROWS, INNER)]


def get_init_inputs():
    return [INNER, COLUMNS]
