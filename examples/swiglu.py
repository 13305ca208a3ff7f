"""The gated feed-forward block of Llama: down(silu(gate(x)) * up(x)), without biases.
Compute bound: three products of 2048 x 4096 x 11008, 0.55 TFLOP."""

import torch
from torch import nn
from torch.nn import functional as F

TOKENS = 2048
HIDDEN = 4096
INNER = 11008


class Model(nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(hidden, inner, bias=False)
        self.up = nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, HIDDEN)]


def get_init_inputs() -> list[int]:
    return [HIDDEN, INNER]
