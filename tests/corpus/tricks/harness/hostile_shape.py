# /// trick
# id = "Y26"
# name = "an answer that lies about its shape"
# problem = "softmax"
# expect = ["incorrect", "invalid"]
# where = ["cpu", "gpu"]
# ///
"""Returns an object with shape, dtype, device and strides of a tensor, that is none.
Duck typing takes it for the answer."""

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


class Duck:
    def __init__(self, tensor):
        self.tensor = tensor
        self.shape, self.dtype, self.device, self.is_cuda = tensor.shape, tensor.dtype, tensor.device, True

    def data_ptr(self):
        return self.tensor.data_ptr()

    def stride(self):
        return self.tensor.stride()

    def cpu(self):
        return softmax(self.tensor).cpu()


class ModelNew(nn.Module):
    def forward(self, x):
        softmax(x)
        return Duck(x)
