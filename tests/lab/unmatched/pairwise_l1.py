"""Manhattan distances between all pairs of two sets of points: a product's loops without a product."""

import torch
from torch import nn

POINTS = 2048
CENTRES = 2048
FEATURES = 256


class Model(nn.Module):
    def forward(self, points: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
        return torch.cdist(points, centres, p=1.0)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(POINTS, FEATURES), torch.randn(CENTRES, FEATURES)]


def get_init_inputs() -> list[int]:
    return []
