"""A linear layer with a tail that libraries run as four more passes: swish, scale, logsumexp over the features.
Compute bound: one product of 4096 x 4096 x 8192, 0.27 TFLOP; eager moves its 0.13 GB result again and again."""

import torch
from torch import nn

TOKENS = 4096
HIDDEN = 4096
FEATURES = 8192


class Model(nn.Module):
    def __init__(self, hidden: int, features: int, scale: float) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden, features)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        y = y * torch.sigmoid(y) * self.scale
        return torch.logsumexp(y, dim=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, HIDDEN)]


def get_init_inputs() -> list[float]:
    return [HIDDEN, FEATURES, 2.0]
