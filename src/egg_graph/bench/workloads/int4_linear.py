"""A product with weights of four bits: two in a byte, with a scale for every 128, as GPTQ and AWQ store them.
A decoding batch of 64 tokens against a projection of Llama 3.1 8B: memory bound, if the weights stay packed."""

import torch
from torch import nn

TOKENS = 64
INPUT = 4096
OUTPUT = 14336
GROUP = 128


class Model(nn.Module):
    def __init__(self, features: int, output: int, group: int) -> None:
        super().__init__()
        self.group = group
        self.register_buffer("packed", torch.randint(0, 256, (output, features // 2), dtype=torch.uint8))
        self.scale = nn.Parameter(torch.rand(output, features // group) * 0.01)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pairs = torch.stack((self.packed & 15, self.packed >> 4), dim=-1)
        weight = pairs.flatten(1).to(x.dtype) - 8.0
        weight = weight.unflatten(1, (-1, self.group)) * self.scale.unsqueeze(-1)
        return x @ weight.flatten(1).t()


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, INPUT)]


def get_init_inputs() -> list[int]:
    return [INPUT, OUTPUT, GROUP]
