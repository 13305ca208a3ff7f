"""Library calls beside a kernel, and a forward that needs values."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(x_ptr + offsets, 2.0 * tl.load(x_ptr + offsets, mask=mask), mask=mask)


def mixed(x, y):
    product = torch.matmul(x, y.t().contiguous())
    scratch = torch.empty_like(product)
    scratch.copy_(product.view(-1).view(product.shape))
    double_kernel[(triton.cdiv(scratch.numel(), 1024),)](scratch, scratch.numel(), BLOCK=1024)
    return scratch.to("cuda"), scratch.sum()


def needs_values(x):
    return x * 2 if float(x.sum().item()) > 0 else x


CASES = {"mixed": mixed, "needs_values": needs_values}


class ModelNew(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case = case
        self.weight = nn.Parameter(torch.randn(8))
        self.linear = nn.Linear(8, 8).cuda().to(torch.float32)
        nn.init.kaiming_normal_(self.linear.weight)
        assert self.linear.weight.is_cuda and self.weight.device.type == "cuda"

    def forward(self, *inputs):
        return CASES[self.case](*inputs)
