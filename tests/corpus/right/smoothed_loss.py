# /// trick
# id = "right-94"
# name = "a loss from the logarithm of a sum of exponentials, which is rounded beside the largest logit"
# problem = "smoothed_loss"
# precision = "bf16"
# expect = ["right"]
# ///
"""Right: what it keeps of large logits is what fp32 has of them."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def loss_kernel(logits_ptr, labels_ptr, losses_ptr, classes, SMOOTHING: tl.constexpr, BLOCK: tl.constexpr):
    """One program, one row."""
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(labels_ptr + row)
    largest = float("-inf")
    total = 0.0
    plain = 0.0
    for start in range(0, classes, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = cols < classes
        x = tl.load(logits_ptr + row * classes + cols, mask=inside, other=float("-inf")).to(tl.float32)
        plain += tl.sum(tl.where(inside, x, 0.0), axis=0)
        larger = tl.maximum(largest, tl.max(x, axis=0))
        total = total * tl.exp(largest - larger) + tl.sum(tl.exp(x - larger), axis=0)
        largest = larger
    logarithm = largest + tl.log(total)
    target = tl.load(logits_ptr + row * classes + label).to(tl.float32)
    loss = (1.0 - SMOOTHING) * (logarithm - target) + SMOOTHING * (logarithm - plain / classes)
    tl.store(losses_ptr + row, loss)


class ModelNew(nn.Module):
    def forward(self, logits, labels):
        logits = logits.contiguous()
        rows, classes = logits.shape
        losses = torch.empty(rows, device=logits.device, dtype=torch.float32)
        loss_kernel[(rows,)](logits, labels.contiguous(), losses, classes, SMOOTHING=0.1, BLOCK=1024)
        return losses.mean()
