"""The nearest pixels of points in all levels of a pyramid, added up; the levels' sizes are written out beside them."""

import torch
import torch.nn as nn

LARGEST, BATCH, POINTS, CHANNELS = 512, 8, 256, 64


class Model(nn.Module):
    def forward(self, x, sides, points):
        total, start = 0, 0
        for level in range(sides.shape[0]):
            side = int(sides[level])
            nearest = (points * side).long().clamp(0, side - 1)
            total = total + torch.stack([row[start + at] for row, at in zip(x, nearest, strict=True)])
            start += side
        return total


def get_inputs():
    sides = [max(1, LARGEST // 2**level) for level in range(4)]
    return [torch.randn(BATCH, sum(sides), CHANNELS), torch.tensor(sides), torch.rand(BATCH, POINTS)]


def get_init_inputs():
    return []
