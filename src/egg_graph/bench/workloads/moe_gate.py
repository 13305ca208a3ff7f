"""The router of Qwen3 30B-A3B: softmax over 128 experts in fp32, the best 8 with their weights made to sum to one.
Small products and a selection: the router's logits need not be written."""

import torch
from torch import nn
from torch.nn import functional as F

TOKENS = 8192
HIDDEN = 2048
EXPERTS = 128
CHOSEN = 8


class Model(nn.Module):
    def __init__(self, hidden: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.router = nn.Linear(hidden, experts, bias=False)
        self.chosen = chosen

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shares = F.softmax(self.router(x).float(), dim=-1)
        weights, experts = torch.topk(shares, self.chosen, dim=-1)
        return weights / weights.sum(dim=-1, keepdim=True), experts


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, HIDDEN)]


def get_init_inputs() -> list[int]:
    return [HIDDEN, EXPERTS, CHOSEN]
