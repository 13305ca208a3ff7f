"""The feed-forward block of a GPT-style transformer: linear, GELU, linear.
Compute bound: two products of 4096 x 4096 x 16384, 1.1 TFLOP."""

import torch
from torch import nn
from torch.nn import functional as F

TOKENS = 4096
HIDDEN = 4096
INNER = 16384


class Model(nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.up = nn.Linear(hidden, inner)
        self.down = nn.Linear(inner, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, HIDDEN)]


def get_init_inputs() -> list[int]:
    return [HIDDEN, INNER]
