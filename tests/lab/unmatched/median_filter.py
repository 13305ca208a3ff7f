"""Median of every 3 x 3 window of an image, its border reflected: a denoising filter without a product or a sum."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 8
CHANNELS = 3
HEIGHT = 768
WIDTH = 1024


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        windows = F.pad(x, (1, 1, 1, 1), mode="reflect").unfold(2, 3, 1).unfold(3, 3, 1)
        return windows.flatten(4).median(4).values


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs() -> list[int]:
    return []
