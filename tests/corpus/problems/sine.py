"""Sine of angles of several turns."""

import torch
from torch import nn

ROWS = 1024
COLUMNS = 1000


class Model(nn.Module):
    def forward(self, x):
        return torch.sin(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS) * 20.0]
