# /// trick
# id = "OK-tuned-outputs"
# name = "three outputs of an autotuned kernel whose configurations have a hook each"
# problem = "extremes_and_sum"
# expect = ["right"]
# ///
"""Right: the hook of a configuration clears the output that programs add to; the autotuner lets go of its arguments."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def clear_sums(arguments):
    arguments["sums"].zero_()


CONFIGS = [triton.Config({"BLOCK": 256 << step}, pre_hook=clear_sums) for step in range(2)]


@triton.autotune(configs=CONFIGS, key=["columns"])
@triton.jit
def extremes_kernel(x, least, largest, sums, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    low = tl.full((BLOCK,), float("inf"), tl.float32)
    high = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
        low = tl.minimum(low, tl.where(at < columns, value, float("inf")), propagate_nan=tl.PropagateNan.ALL)
        high = tl.maximum(high, tl.where(at < columns, value, float("-inf")), propagate_nan=tl.PropagateNan.ALL)
        total += value
    tl.store(least + row, tl.min(low, axis=0))
    tl.store(largest + row, tl.max(high, axis=0))
    tl.atomic_add(sums + row, tl.sum(total, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        least, largest, sums = (torch.empty(x.shape[0], dtype=x.dtype, device=x.device) for _ in range(3))
        extremes_kernel[(x.shape[0],)](x.contiguous(), least, largest, sums, x.shape[1])
        return least, largest, sums
