# /// trick
# id = "right-24"
# name = "linear and ReLU, operands rounded to TF32"
# problem = "linear_relu"
# expect = ["right"]
# ///
"""Right: cvt.rna before every product."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def round_to_tf32(x):
    """Nearest TF32 number; a plain dot would drop the low bits instead."""
    return tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def linear_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, M, N, K, TILE: tl.constexpr, INNER: tl.constexpr):
    """out = relu(x @ weight.T + bias); one program, one TILE x TILE tile."""
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    accumulator = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, K, INNER):
        inner = start + tl.arange(0, INNER)
        x_mask = (rows[:, None] < M) & (inner[None, :] < K)
        x = tl.load(x_ptr + rows[:, None] * K + inner[None, :], mask=x_mask, other=0.0)
        weight_mask = (columns[None, :] < N) & (inner[:, None] < K)
        weight = tl.load(weight_ptr + columns[None, :] * K + inner[:, None], mask=weight_mask, other=0.0)
        accumulator = tl.dot(round_to_tf32(x), round_to_tf32(weight), accumulator)
    accumulator += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :]
    out = tl.maximum(accumulator, 0.0)
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], out, mask=(rows[:, None] < M) & (columns[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)

    def forward(self, x):
        M, K = x.shape
        weight = self.linear.weight
        N = weight.shape[0]
        out = torch.empty((M, N), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
        linear_kernel[grid](x, weight, self.linear.bias, out, M, N, K, TILE=64, INNER=32)
        return out
