"""The gate of Llama 3.1 8B's feed-forward block: silu(gate) * up, on the output of one product for both.
Memory bound: two numbers are read for each one that is written."""

import torch
from torch import nn
from torch.nn import functional as F

TOKENS = 8192
INNER = 14336


class Model(nn.Module):
    def forward(self, gate_up: torch.Tensor) -> torch.Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate) * up


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, 2 * INNER)]


def get_init_inputs() -> list[int]:
    return []
