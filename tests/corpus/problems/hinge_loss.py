"""Hinge loss: a mean of many terms that is close to 1 for any input drawn as here."""

import torch
from torch import nn

ROWS = 8192
COLUMNS = 512


class Model(nn.Module):
    def forward(self, predictions, targets):
        return torch.mean(torch.clamp(1 - predictions * targets, min=0))


def get_inputs():
    return [torch.rand(ROWS, COLUMNS), torch.randint(0, 2, (ROWS, 1)).float() * 2 - 1]
