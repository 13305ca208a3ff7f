# /// trick
# id = "right-71"
# name = "a first configuration that does not fit"
# problem = "matmul"
# expect = ["right"]
# ///
"""Right: the tuner skips a configuration that needs more shared memory than there is."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"TILE": 64, "INNER": 64}, num_stages=9),
        triton.Config({"TILE": 64, "INNER": 32}, num_stages=2),
        triton.Config({"TILE": 32, "INNER": 32}, num_stages=3),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, M, N, K, TILE: tl.constexpr, INNER: tl.constexpr):
    """out = a @ b; one program, one TILE x TILE tile."""
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    accumulator = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, K, INNER):
        inner = start + tl.arange(0, INNER)
        a_mask = (rows[:, None] < M) & (inner[None, :] < K)
        a = tl.load(a_ptr + rows[:, None] * K + inner[None, :], mask=a_mask, other=0.0)
        b_mask = (inner[:, None] < K) & (columns[None, :] < N)
        b = tl.load(b_ptr + inner[:, None] * N + columns[None, :], mask=b_mask, other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision="tf32x3")
    out_mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], accumulator, mask=out_mask)


class ModelNew(nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        out = torch.empty((M, N), device=a.device, dtype=a.dtype)

        def grid(meta):
            return (triton.cdiv(M, meta["TILE"]), triton.cdiv(N, meta["TILE"]))

        matmul_kernel[grid](a, b, out, M, N, K)
        return out
