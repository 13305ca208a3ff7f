"""Cost volume of stereo matching: how alike both images' features are, at every pixel and for every disparity."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 4
CHANNELS = 32
HEIGHT = 256
WIDTH = 512
DISPARITIES = 24


class Model(nn.Module):
    def __init__(self, disparities: int) -> None:
        super().__init__()
        self.disparities = disparities

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        reach, width = self.disparities - 1, left.shape[3]
        padded = F.pad(right, (reach, 0))
        shifted = [padded[..., reach - d : reach - d + width] for d in range(self.disparities)]
        return torch.stack([(left * other).mean(1) for other in shifted], 1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH), torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs() -> list[int]:
    return [DISPARITIES]
