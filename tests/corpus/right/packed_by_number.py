# /// trick
# id = "right-96"
# name = "a division by a number that is read from a buffer"
# problem = "packed_by_number"
# expect = ["right"]
# ///
"""Right: where it reads follows from what it has read, which a run without values does not know."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def unpack_kernel(words_ptr, bits_ptr, scales_ptr, out_ptr, words, numbers, BLOCK: tl.constexpr):
    """One program, BLOCK numbers of a table."""
    table = tl.program_id(1)
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < numbers
    bits = tl.load(bits_ptr + table)
    each = 32 // bits
    word = tl.load(words_ptr + table * words + places // each, mask=inside, other=0)
    number = (word >> (places % each * bits)) & ((1 << bits) - 1)
    y = number.to(tl.float32) * tl.load(scales_ptr + table)
    tl.store(out_ptr + table * numbers + places, y, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, bits):
        super().__init__()
        self.register_buffer("bits", torch.tensor(bits, dtype=torch.int32))

    def forward(self, words, scales):
        tables, count = words.shape
        out = torch.empty((tables, count * 4), device=words.device, dtype=torch.float32)
        unpack_kernel[(triton.cdiv(count * 4, 1024), tables)](
            words.contiguous(), self.bits, scales.contiguous(), out, count, count * 4, BLOCK=1024
        )
        return out
