"""Cross entropy of Llama 3.1's vocabulary: the loss of every token, averaged, in fp32.
Memory bound: 128256 logits of each token are read once, and one number is written."""

import torch
from torch import nn
from torch.nn import functional as F

TOKENS = 4096
VOCABULARY = 128256


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits.float(), targets)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, VOCABULARY), torch.randint(0, VOCABULARY, (TOKENS,))]


def get_init_inputs() -> list[int]:
    return []
