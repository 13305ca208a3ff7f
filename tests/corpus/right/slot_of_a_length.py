# /// trick
# id = "OK-length"
# name = "a slot that lies one before a length"
# problem = "newest_slot"
# expect = ["right"]
# ///
"""Honest: the first program of a sequence writes its newest entry into slot `length - 1`, which is never below 0."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(cache_ptr, newest_ptr, lengths_ptr, out_ptr, slots, width, BLOCK: tl.constexpr):
    sequence, slot = tl.program_id(0).to(tl.int64), tl.program_id(1)
    inside = tl.arange(0, BLOCK) < width
    j = tl.arange(0, BLOCK)
    newest = tl.load(lengths_ptr + sequence) - 1
    places = (sequence * slots + slot) * width + j
    kept = tl.load(cache_ptr + places, mask=inside & (slot != newest), other=0.0)
    tl.store(out_ptr + places, kept, mask=inside & (slot != newest))
    if slot == 0:
        new = tl.load(newest_ptr + sequence * width + j, mask=inside, other=0.0)
        tl.store(out_ptr + (sequence * slots + newest) * width + j, new, mask=inside)


class ModelNew(nn.Module):
    def forward(self, cache, newest, lengths):
        sequences, slots, width = cache.shape
        out = torch.empty_like(cache)
        copy_kernel[(sequences, slots)](cache, newest, lengths, out, slots, width, triton.next_power_of_2(width))
        return out
