"""Layer normalization over the hidden size, as before every block of a GPT-style transformer.
Memory bound: 16384 tokens of 4096 features, 0.27 GB read and 0.27 GB written."""

import torch
from torch import nn

TOKENS = 16384
HIDDEN = 4096


class Model(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.1)  # as trained: ones and zeros would hide a kernel
        nn.init.normal_(self.norm.bias, std=0.1)  # that forgets them

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, HIDDEN)]


def get_init_inputs() -> list[int]:
    return [HIDDEN]
