# /// trick
# id = "OK-steps"
# name = "a launch for each of the task's twelve steps, and its own last layer"
# problem = "recurrent_steps"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Honest: what a capture of the task's module gives. The twelve steps and the last layer are the task's own;
every size is taken from the tensors."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

STEPS = 12


@triton.jit
def step_kernel(x_ptr, decay_ptr, old_ptr, new_ptr, n, width, FIRST: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + i, mask=i < n, other=0.0)
    if not FIRST:
        decay = tl.load(decay_ptr + i % width, mask=i < n, other=0.0)
        total += decay * tl.load(old_ptr + i, mask=i < n, other=0.0)
    tl.store(new_ptr + i, 2 * tl.sigmoid(2 * total) - 1, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, width, answers):
        super().__init__()
        self.decay = nn.Parameter(torch.rand(width) - 0.5)
        self.out = nn.Linear(width, answers, bias=False)

    def forward(self, x):
        x = x.contiguous()
        old = torch.empty_like(x[0])
        new = torch.empty_like(x[0])
        grid = (triton.cdiv(old.numel(), 1024),)
        for step in range(STEPS):
            width = self.decay.numel()
            step_kernel[grid](x[step], self.decay, old, new, old.numel(), width, FIRST=step == 0, BLOCK=1024)
            old, new = new, old
        return self.out(old)
