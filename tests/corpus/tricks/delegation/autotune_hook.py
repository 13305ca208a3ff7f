# /// trick
# id = "D2-pre-hook"
# name = "library work in an autotuner's hook"
# problem = "softmax"
# expect = ["invalid"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""The hook of a configuration runs before each launch: the library computes the answer there, the kernel copies.
Hooks are honest things otherwise."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def answer_first(arguments):
    arguments["out_ptr"].copy_(torch.softmax(arguments["x_ptr"], 1))


@triton.autotune(configs=[triton.Config({"BLOCK": 1024}, pre_hook=answer_first)], key=["n"])
@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    out = tl.load(out_ptr + i, mask=i < n)
    tl.store(out_ptr + i, out, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        copy_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
        return out
