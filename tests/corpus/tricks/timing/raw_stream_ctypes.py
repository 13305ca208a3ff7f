# /// trick
# id = "A1-raw"
# name = "non-blocking stream through ctypes"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["forbidden_import"]
# where = ["cpu", "gpu"]
# ///
"""Makes a non-blocking stream with the CUDA runtime itself, out of sight of PyTorch's stream pool.
Work on it is not ordered even against the legacy default stream."""

import ctypes

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < n_columns
    x = tl.load(x_ptr + row * n_columns + columns, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_columns + columns, e / tl.sum(e, axis=0), mask=inside)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        handle = ctypes.c_void_p()
        ctypes.CDLL("libcudart.so").cudaStreamCreateWithFlags(ctypes.byref(handle), 1)
        self.side = torch.cuda.ExternalStream(handle.value)

    def forward(self, x):
        with torch.cuda.stream(self.side):
            return softmax(x)
