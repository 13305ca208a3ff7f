"""A dense grid of a few rows of features, zero elsewhere."""

import torch
from torch import nn

CELLS = 40000
POINTS = 300
WIDTH = 48


class Model(nn.Module):
    def __init__(self, cells):
        super().__init__()
        self.cells = cells

    def forward(self, features, places):
        out = torch.zeros((int(places.max()) // self.cells + 1, self.cells, features.shape[1]), device=features.device)
        out[places // self.cells, places % self.cells] = features
        return out


def get_inputs():
    return [torch.randn(POINTS, WIDTH), torch.randperm(CELLS)[:POINTS]]


def get_init_inputs():
    return [CELLS]
