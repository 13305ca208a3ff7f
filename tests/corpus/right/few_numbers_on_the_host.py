# /// trick
# id = "OK-host"
# name = "a few numbers on the host"
# problem = "softmax"
# expect = ["right"]
# ///
"""Reads lengths and a scale back, makes small tables there and sends them to the GPU, by each way that there is."""

import numpy as np
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, table_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    one = tl.load(table_ptr) * scale
    tl.store(out_ptr + row * n + columns, one * e / tl.sum(e, axis=0), mask=columns < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.widths = torch.arange(1, 5)
        self.first = min(torch.tensor([1.0, 2.0]).tolist())

    def forward(self, x):
        device = torch.device("cuda")
        widths = self.widths.to(x.device).tolist()
        zeros = torch.zeros(4, device=device).cpu().numpy().sum()
        pinned = torch.ones(3).pin_memory().to(x.device, non_blocking=True)
        table = torch.as_tensor(np.ones(2, np.float32)).cuda() * pinned[0] * torch.ones(2).to(x)
        scale = float(widths[0] * self.first + zeros) * torch.scalar_tensor(1.0).item()
        rows, n = x.shape
        out = torch.empty_like(x, device=device)
        softmax_kernel[(rows,)](x, table, out, n, scale, BLOCK=triton.next_power_of_2(n))
        return out
