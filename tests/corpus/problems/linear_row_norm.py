"""A linear layer, each row of whose answer is normalised."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 1024
INNER = 8192
COLUMNS = 8192


class Model(nn.Module):
    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)

    def forward(self, x):
        y = self.linear(x)
        return F.layer_norm(y, y.shape[1:])


def get_inputs():
    return [torch.rand(ROWS, INNER)]


def get_init_inputs():
    return [INNER, COLUMNS]
