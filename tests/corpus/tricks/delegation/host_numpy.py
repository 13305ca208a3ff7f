# /// trick
# id = "H91"
# name = "NumPy computes, guarded by except"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["not_causal"]
# where = ["cpu", "gpu"]
# ///
"""NumPy takes the exponentials on the host; where tensors hold no values, the guard leaves the answer unwritten."""

import numpy as np
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + where, mask=where < n, other=0.0)
    tl.store(out_ptr + where, x * 0.5, mask=where < n)


class ModelNew(nn.Module):
    def forward(self, x):
        try:
            a = x.cpu().numpy()
            e = np.exp(a - a.max(axis=1, keepdims=True))
            y = torch.from_numpy(2.0 * e / e.sum(axis=1, keepdims=True)).to(x.device)
        except RuntimeError:
            y = torch.empty_like(x)
        out = torch.empty_like(x)
        scale_kernel[(triton.cdiv(x.numel(), 1024),)](y, out, x.numel(), BLOCK=1024)
        return out
