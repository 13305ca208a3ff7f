"""Sums of rows of large 32-bit integers, in 64 bits."""

import torch
from torch import nn

ROWS = 1024
COLUMNS = 512


class Model(nn.Module):
    def forward(self, x):
        return torch.sum(x, dim=1)


def get_inputs():
    return [torch.randint(int(1e8), int(2e8), (ROWS, COLUMNS), dtype=torch.int32)]
