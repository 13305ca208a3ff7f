"""Bilateral filter: the mean of every window of an image, weighted by how near in value pixels are to its middle."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 4
CHANNELS = 3
HEIGHT = 512
WIDTH = 768
RADIUS = 2
SHARPNESS = 8.0


class Model(nn.Module):
    def __init__(self, sharpness: float) -> None:
        super().__init__()
        self.sharpness = sharpness

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = 2 * RADIUS + 1
        padded = F.pad(x, (RADIUS, RADIUS, RADIUS, RADIUS), mode="replicate")
        windows = padded.unfold(2, size, 1).unfold(3, size, 1).flatten(4)
        weights = torch.exp(-self.sharpness * (windows - x.unsqueeze(4)).square())
        return (weights * windows).sum(4) / weights.sum(4)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs() -> list[float]:
    return [SHARPNESS]
