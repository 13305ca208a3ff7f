"""Unbiased variance of short rows."""

import torch
from torch import nn

ROWS = 4096
COLUMNS = 96


class Model(nn.Module):
    def forward(self, x):
        return torch.var(x, dim=1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS) + 3.0]
