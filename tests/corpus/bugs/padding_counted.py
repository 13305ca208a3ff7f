# /// trick
# id = "bug-81"
# name = "cross entropy that counts padding"
# problem = "cross_entropy_padded"
# expect = ["incorrect", "runtime_error"]
# ///
"""Planted: tokens of the padding class lose nothing, but the sum is divided by all tokens."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def token_loss_kernel(x_ptr, target_ptr, out_ptr, classes, tokens, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    top = -float("inf")
    total = 0.0
    for start in range(0, classes, BLOCK):
        at = start + lanes
        x = tl.load(x_ptr + row * classes + at, mask=at < classes, other=-float("inf"))
        new_top = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(x - new_top), axis=0)
        top = new_top
    target = tl.load(target_ptr + row)
    picked = tl.load(x_ptr + row * classes + target)
    loss = top + tl.log(total) - picked
    loss = tl.where(target == 0, 0.0, loss)
    tl.atomic_add(out_ptr, loss / tokens)


class ModelNew(nn.Module):
    def forward(self, logits, targets):
        logits = logits.contiguous()
        tokens, classes = logits.shape
        out = torch.zeros((), device=logits.device, dtype=torch.float32)
        token_loss_kernel[(tokens,)](logits, targets.contiguous(), out, classes, tokens, BLOCK=1024)
        return out
