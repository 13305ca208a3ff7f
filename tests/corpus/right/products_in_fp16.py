# /// trick
# id = "right-95"
# name = "products of halves in halves, added up in fp32"
# problem = "matrix_vector_halves"
# precision = "fp16"
# expect = ["right"]
# ///
"""Right: one rounding of each product. Of numbers of a thousandth fp16 has few bits, whoever computes in it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(matrix_ptr, vector_ptr, out_ptr, width, BLOCK: tl.constexpr):
    """One program, one row."""
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, width, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(matrix_ptr + row * width + cols, mask=cols < width, other=0.0)
        y = tl.load(vector_ptr + cols, mask=cols < width, other=0.0)
        total += (x * y).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(total, axis=0).to(tl.float16))


class ModelNew(nn.Module):
    def forward(self, matrix, vector):
        rows, width = matrix.shape
        out = torch.empty(rows, device=matrix.device, dtype=matrix.dtype)
        row_kernel[(rows,)](matrix.contiguous(), vector.contiguous(), out, width, BLOCK=256)
        return out
