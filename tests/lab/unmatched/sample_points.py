"""Features of an image at given points, bilinear, zero outside: what deformable attention gathers."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 16
CHANNELS = 64
HEIGHT = 128
WIDTH = 128
POINTS = 16384


class Model(nn.Module):
    def forward(self, features: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        sampled = F.grid_sample(features, points.unsqueeze(1), mode="bilinear", align_corners=False)
        return sampled.squeeze(2)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH), 2.2 * torch.rand(BATCH, POINTS, 2) - 1.1]


def get_init_inputs() -> list[int]:
    return []
