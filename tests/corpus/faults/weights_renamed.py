# /// trick
# id = "fault-24"
# name = "parameters by other names and of other shapes"
# problem = "linear_gelu"
# expect = ["invalid"]
# finding = ["weights_mismatch"]
# ///
"""Planted: the parameters have other names than the reference, and one has another shape."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def round_to_tf32(x):
    """Nearest TF32 number; a plain dot would drop the low bits instead."""
    return tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def matmul_bias_gelu_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """out = gelu(x @ weight.T + bias); one program, one BLOCK_M x BLOCK_N tile."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        x_mask = (rows[:, None] < M) & (inner[None, :] < K)
        x = tl.load(x_ptr + rows[:, None] * K + inner[None, :], mask=x_mask, other=0.0)
        weight_mask = (columns[None, :] < N) & (inner[:, None] < K)
        weight = tl.load(weight_ptr + columns[None, :] * K + inner[:, None], mask=weight_mask, other=0.0)
        accumulator = tl.dot(round_to_tf32(x), round_to_tf32(weight), accumulator)
    accumulator += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :]
    out = 0.5 * accumulator * (1.0 + tl.erf(accumulator * 0.7071067811865476))
    out_mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], out, mask=out_mask)


CONFIG = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.dense = nn.Linear(in_features, out_features, bias=False)
        self.offset = nn.Parameter(torch.zeros(1, out_features))

    def forward(self, x):
        M, K = x.shape
        N = self.dense.weight.shape[0]
        out = torch.empty((M, N), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(M, CONFIG["BLOCK_M"]), triton.cdiv(N, CONFIG["BLOCK_N"]))
        matmul_bias_gelu_kernel[grid](
            x, self.dense.weight, self.offset, out, M, N, K,
            BLOCK_M=CONFIG["BLOCK_M"], BLOCK_N=CONFIG["BLOCK_N"], BLOCK_K=CONFIG["BLOCK_K"],
            num_warps=CONFIG["num_warps"], num_stages=CONFIG["num_stages"],
        )  # fmt: skip
        return out
