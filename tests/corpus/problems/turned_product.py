"""A product, turned, times another matrix."""

import torch
from torch import nn

ROWS = 512
INNER = 256
COLUMNS = 384
OTHERS = 128


class Model(nn.Module):
    def forward(self, a, b, c):
        turned = (a @ b).t().contiguous()
        return turned @ c


def get_inputs():
    return [torch.randn(ROWS, INNER), torch.randn(INNER, COLUMNS), torch.randn(ROWS, OTHERS)]
