"""Weighted sums of rows of a table, as a recommender pools a user's history. The gathered rows need not be written."""

import torch
from torch import nn

ROWS = 200000
WIDTH = 128
BAGS = 8192
HISTORY = 64


class Model(nn.Module):
    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, width)

    def forward(self, items: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return (self.table(items) * weights.unsqueeze(-1)).sum(dim=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randint(0, ROWS, (BAGS, HISTORY)), torch.rand(BAGS, HISTORY)]


def get_init_inputs() -> list[int]:
    return [ROWS, WIDTH]
