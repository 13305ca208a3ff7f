"""Twice the size by cubic interpolation, then an activation: the end of an upsampling block."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 16
CHANNELS = 64
HEIGHT = 128
WIDTH = 128


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(F.interpolate(x, scale_factor=2.0, mode="bicubic", align_corners=False))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs() -> list[int]:
    return []
