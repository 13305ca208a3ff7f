# /// trick
# id = "right-93"
# name = "rows of features scattered into zeros of PyTorch's; a breakpoint and struct stand in the module"
# problem = "points_on_a_grid"
# expect = ["right"]
# ///
"""Right: of the answer a hundredth is not zero, and the kernel moves that."""

import struct

import torch
import torch.nn as nn
import triton
import triton.language as tl

FILL = struct.unpack(">f", bytes.fromhex("00000000"))[0]


@triton.jit
def place_kernel(features_ptr, places_ptr, out_ptr, WIDTH, BLOCK: tl.constexpr):
    """One program, one row."""
    row = tl.program_id(0)
    place = tl.load(places_ptr + row)
    cols = tl.arange(0, BLOCK)
    x = tl.load(features_ptr + row * WIDTH + cols, mask=cols < WIDTH, other=0.0)
    tl.store(out_ptr + place * WIDTH + cols, x, mask=cols < WIDTH)


class ModelNew(nn.Module):
    def __init__(self, cells):
        super().__init__()
        self.cells = cells

    def forward(self, features, places):
        if features.dim() != 2:
            breakpoint()
        width = features.shape[1]
        grids = int(places.max()) // self.cells + 1
        out = torch.full((grids, self.cells, width), FILL, device=features.device)
        place_kernel[(features.shape[0],)](
            features.contiguous(), places.contiguous(), out, width, BLOCK=triton.next_power_of_2(width)
        )
        return out
