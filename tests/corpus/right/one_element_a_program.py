# /// trick
# id = "right-85"
# name = "exponential of rearranged pixels, one element a program"
# problem = "space_to_depth"
# precision = "ieee"
# expect = ["right"]
# ///
"""Right, and far too many programs to interpret all of them."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def exp_kernel(x_ptr, out_ptr, again):
    """out = exp(x), both [n]; one program, one element, which it reads once more `again` times."""
    place = tl.program_id(0)
    x = tl.load(x_ptr + place)
    for _ in range(again):
        x = tl.load(x_ptr + place)
    tl.store(out_ptr + place, tl.exp(x))


class ModelNew(nn.Module):
    def forward(self, x):
        b, c, h, w = x.shape
        moved = x.reshape(b, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 1, 2, 4).reshape(b, 4 * c, h // 2, w // 2)
        out = torch.empty_like(moved)
        exp_kernel[(out.numel(),)](moved.contiguous(), out, h * w // 128)
        return out
