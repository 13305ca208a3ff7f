"""A projection whose inner dimension is 2048, whatever the outer ones are."""

import torch
from torch import nn

ROWS = 256
COLUMNS = 256


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2048, columns))

    def forward(self, a):
        return a @ self.weight


def get_inputs():
    return [torch.randn(ROWS, 2048)]


def get_init_inputs():
    return [COLUMNS]
