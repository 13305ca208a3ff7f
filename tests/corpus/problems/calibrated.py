"""Piecewise linear calibration: each value lies between two keypoints, whose outputs are looked up."""

import torch
from torch import nn

ROWS = 4096
KEYPOINTS = 32


class Model(nn.Module):
    def __init__(self, keypoints):
        super().__init__()
        self.register_buffer("keypoints", torch.linspace(-3.0, 3.0, keypoints))
        self.outputs = nn.Parameter(torch.randn(keypoints))

    def forward(self, x):
        right = torch.bucketize(x, self.keypoints).clamp(1, self.keypoints.numel() - 1)
        left = right - 1
        share = (x - self.keypoints[left]) / (self.keypoints[right] - self.keypoints[left])
        return torch.lerp(self.outputs[left], self.outputs[right], share.clamp(0.0, 1.0))


def get_inputs():
    return [torch.randn(ROWS, 256)]


def get_init_inputs():
    return [KEYPOINTS]
