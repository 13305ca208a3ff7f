# /// trick
# id = "right-46"
# name = "matrix product by bulk copies"
# problem = "matmul"
# expect = ["right"]
# ///
"""Right: a matrix product whose tiles travel by bulk copies (tensor descriptors, TMA on Hopper)."""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def matmul_kernel(a_desc, b_desc, c_desc, K, TILE: tl.constexpr, INNER: tl.constexpr):
    row, column = tl.program_id(0) * TILE, tl.program_id(1) * TILE
    accumulator = tl.zeros((TILE, TILE), dtype=tl.float32)
    for k in range(0, K, INNER):
        accumulator += tl.dot(a_desc.load([row, k]), b_desc.load([k, column]))
    c_desc.store([row, column], accumulator)


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty((a.shape[0], b.shape[1]), device=a.device, dtype=a.dtype)
        grid = (triton.cdiv(a.shape[0], 64), triton.cdiv(b.shape[1], 64))
        matmul_kernel[grid](
            TensorDescriptor.from_tensor(a, [64, 32]),
            TensorDescriptor.from_tensor(b, [32, 64]),
            TensorDescriptor.from_tensor(out, [64, 64]),
            a.shape[1],
            TILE=64,
            INNER=32,
        )
        return out
