"""Numbers unpacked from words, as many in a word as a buffer says."""

import torch
from torch import nn

TABLES = 3
WORDS = 5000


class Model(nn.Module):
    def __init__(self, bits):
        super().__init__()
        self.register_buffer("bits", torch.tensor(bits, dtype=torch.int32))

    def forward(self, words, scales):
        each = 32 // self.bits
        places = torch.arange(words.shape[1] * 4, device=words.device)
        at = places[None] // each[:, None]
        shifts = places[None] % each[:, None] * self.bits[:, None]
        taken = torch.gather(words, 1, at) >> shifts
        return (taken & ((1 << self.bits[:, None]) - 1)) * scales[:, None]


def get_inputs():
    return [torch.randint(0, 2**31 - 1, (TABLES, WORDS)).to(torch.int32).long(), torch.rand(TABLES) + 0.5]


def get_init_inputs():
    return [[8, 4, 2]]
