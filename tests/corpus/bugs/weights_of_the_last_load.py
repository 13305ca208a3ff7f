# /// trick
# id = "bug-63"
# name = "weights copied when a state dict is loaded"
# problem = "rms_norm"
# expect = ["incorrect"]
# ///
"""A copy of the weight is made whenever a state dict is loaded; an optimizer's steps do not reach it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(x_ptr, weight_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + row * n + columns, mask=mask, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / n + eps)
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0)
    tl.store(out_ptr + row * n + columns, x * scale * weight, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.register_load_state_dict_post_hook(self.keep)

    def keep(self, module, keys):
        self.kept = self.weight.detach().clone()

    def forward(self, x):
        out = torch.empty_like(x)
        rows, n = x.shape
        rms_norm_kernel[(rows,)](x, self.kept, out, n, 1e-2, BLOCK=triton.next_power_of_2(n))
        return out
