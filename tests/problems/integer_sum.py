"""Sums of rows of large 32-bit integers, in 64 bits."""

import torch
from torch import nn

ROWS = 1024
COLUMNS = 512


class Model(nn.Module):
    def forward(self, x):
        return torch.sum(x, dim=1)


def get_inputs():
    return [torch.randint(100_000_000, 200_000_000, (ROWS, COLUMNS), dtype=torch.int32)]
