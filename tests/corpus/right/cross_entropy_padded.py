# /// trick
# id = "right-43"
# name = "cross entropy without padding"
# problem = "cross_entropy_padded"
# expect = ["right"]
# ///
"""Right: tokens of the padding class count neither in the sum nor in the divisor."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def token_kernel(x_ptr, target_ptr, loss_ptr, classes, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    base = x_ptr + row.to(tl.int64) * stride
    target = tl.load(target_ptr + row)
    if target == 0:
        tl.store(loss_ptr + row, 0.0)
    else:
        lanes = tl.arange(0, BLOCK)
        top = tl.full([BLOCK], -float("inf"), tl.float32)
        for start in range(0, classes, BLOCK):
            top = tl.maximum(top, tl.load(base + start + lanes, mask=start + lanes < classes, other=-float("inf")))
        highest = tl.max(top, axis=0)
        total = tl.zeros([BLOCK], tl.float32)
        for start in range(0, classes, BLOCK):
            x = tl.load(base + start + lanes, mask=start + lanes < classes, other=-float("inf"))
            total += tl.exp(x - highest)
        tl.store(loss_ptr + row, highest + tl.log(tl.sum(total, axis=0)) - tl.load(base + target))


@triton.jit
def mean_kernel(loss_ptr, target_ptr, out_ptr, tokens, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    count = tl.zeros([BLOCK], tl.int32)
    for start in range(0, tokens, BLOCK):
        keep = start + lanes < tokens
        total += tl.load(loss_ptr + start + lanes, mask=keep, other=0.0)
        count += (tl.load(target_ptr + start + lanes, mask=keep, other=0) != 0).to(tl.int32)
    tl.store(out_ptr, tl.sum(total, axis=0) / tl.sum(count, axis=0).to(tl.float32))


class ModelNew(nn.Module):
    def forward(self, logits, targets):
        logits, targets = logits.contiguous(), targets.contiguous()
        tokens, classes = logits.shape
        losses = torch.empty(tokens, device=logits.device, dtype=torch.float32)
        out = torch.empty((), device=logits.device, dtype=logits.dtype)
        token_kernel[(tokens,)](logits, targets, losses, classes, logits.stride(0), BLOCK=1024)
        mean_kernel[(1,)](losses, targets, out, tokens, BLOCK=1024)
        return out
