# /// trick
# id = "right-73"
# name = "a product by descriptors, whose rows are whole 16 bytes"
# problem = "matmul_relu_bias"
# expect = ["right"]
# ///
"""Right: a descriptor cannot describe rows of an odd length, and Triton says so."""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def matmul_kernel(a_desc, b_desc, bias_ptr, out_ptr, M, N, K, TILE: tl.constexpr, INNER: tl.constexpr):
    row, column = tl.program_id(0) * TILE, tl.program_id(1) * TILE
    accumulator = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, K, INNER):
        a = a_desc.load([row, start])
        b = b_desc.load([start, column])
        accumulator = tl.dot(a, b, accumulator, input_precision="tf32x3")
    rows, columns = row + tl.arange(0, TILE), column + tl.arange(0, TILE)
    bias = tl.load(bias_ptr + columns, mask=columns < N, other=0.0)
    value = tl.maximum(accumulator, 0.0) + bias[None, :]
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], value, mask=(rows < M)[:, None] & (columns < N)[None, :])


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(columns))

    def forward(self, a, b):
        (M, K), N = a.shape, b.shape[1]
        out = torch.empty((M, N), device=a.device, dtype=a.dtype)
        a_desc = TensorDescriptor.from_tensor(a, [64, 32])
        b_desc = TensorDescriptor.from_tensor(b, [32, 64])
        matmul_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](
            a_desc, b_desc, self.bias, out, M, N, K, TILE=64, INNER=32
        )
        return out
