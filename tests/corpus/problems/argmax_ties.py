"""Where the largest of a few levels first stands in each row."""

import torch
from torch import nn

ROWS = 1024
COLUMNS = 512


class Model(nn.Module):
    def forward(self, x):
        is_largest = x == torch.amax(x, dim=1, keepdim=True)
        places = torch.arange(x.shape[1], device=x.device).expand_as(x)
        return torch.where(is_largest, places, x.shape[1]).amin(dim=1)


def get_inputs():
    return [torch.randint(0, 9, (ROWS, COLUMNS)).float()]
