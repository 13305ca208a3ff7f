"""Batch norm in train mode: statistics of the batch, and running statistics kept."""

import torch
from torch import nn

ROWS = 1024
FEATURES = 512


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(ROWS, FEATURES) * 2.0 + 0.5]


def get_init_inputs():
    return [FEATURES]
