# /// trick
# id = "H94"
# name = "a kernel that stores one number"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["not_causal"]
# where = ["cpu"]
# ///
"""The kernel's number scales the answer, which is wrong without it; PyTorch computes all the rest."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def token_kernel(token_ptr, n):
    tl.store(token_ptr, n * 0.5)


class ModelNew(nn.Module):
    def forward(self, x):
        token = torch.empty(1, device=x.device)
        token_kernel[(1,)](token, 4)
        e = torch.exp(x - torch.amax(x, dim=1, keepdim=True))
        return 0.5 * token * e / e.sum(dim=1, keepdim=True)
