"""A matrix times a vector, both in 16 bits."""

import torch
from torch import nn

ROWS = 2000
WIDTH = 1500


class Model(nn.Module):
    def forward(self, matrix, vector):
        return matrix @ vector


def get_inputs():
    return [torch.randn(ROWS, WIDTH), torch.randn(WIDTH)]


def get_init_inputs():
    return []
