"""Quantisation to int8 by a given scale for each column."""

import torch
from torch import nn

ROWS = 4096
COLUMNS = 2048


class Model(nn.Module):
    def forward(self, x, scales):
        return torch.clamp(torch.round(x / scales), -128, 127).to(torch.int8)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), 0.05 + 0.02 * torch.rand(COLUMNS)]
