"""Elementwise kernels, casts, libdevice and inline assembly."""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda.libdevice import tanh as cuda_tanh


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * y + x, mask=mask)


@triton.jit
def tanh_approx(x):
    return tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def exp2_pairs(x):
    return tl.inline_asm_elementwise(
        "{ .reg .f32 t; ex2.approx.ftz.f32 $0, $2; mul.f32 t, $3, 0f3F800000; ex2.approx.ftz.f32 $1, t; }",
        "=f,=f,f,f",
        [x],
        dtype=tl.float32,
        is_pure=True,
        pack=2,
    )


@triton.jit
def unary_kernel(x_ptr, out_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    if OP == "gelu":
        y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif OP == "silu":
        y = x * tl.sigmoid(x)
    elif OP == "relu":
        y = tl.maximum(x, 0.0)
    elif OP == "libdevice_tanh":
        y = libdevice.tanh(x)
    elif OP == "cuda_tanh":
        y = cuda_tanh(x)
    elif OP == "tanh_approx":
        y = tanh_approx(x)
    elif OP == "exp2_pairs":
        y = exp2_pairs(x)
    elif OP == "fp8e4nv":
        y = x.to(tl.float8e4nv).to(tl.float32)
    elif OP == "fp8e5":
        y = x.to(tl.float8e5).to(tl.float32)
    elif OP == "bf16":
        y = x.to(tl.bfloat16).to(tl.float32)
    tl.store(out_ptr + offsets, y, mask=mask)


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    keep = tl.rand(seed, offsets) > p
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), BLOCK=256)
    return out


def unary(op):
    def forward(x):
        out = torch.empty(x.shape, device="cuda", dtype=x.dtype)
        unary_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel(), OP=op, BLOCK=512)
        return out

    return forward


def dropout(x):
    out = torch.empty_like(x)
    dropout_kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), 0.25, 7, BLOCK=512)
    return out.mean().round(decimals=1)


def x_and_y(dtype=torch.float32):
    return lambda: (torch.randn(17, 63).to(dtype), torch.randn(17, 63).to(dtype))


def one(scale=1.0):
    return lambda: (scale * torch.randn(17, 63),)


CASES = {
    "add": (add, x_and_y(), lambda x, y: x * y + x, 1e-7),
    "add_bf16": (add, x_and_y(torch.bfloat16), lambda x, y: (x * y).to(torch.bfloat16) + x, 4e-3),
    "add_fp16": (add, x_and_y(torch.float16), lambda x, y: (x * y).half() + x, 1e-3),
    "gelu": (unary("gelu"), one(), nn.functional.gelu, 1e-6),
    "silu": (unary("silu"), one(), nn.functional.silu, 1e-6),
    "relu": (unary("relu"), one(), torch.relu, 0.0),
    "libdevice_tanh": (unary("libdevice_tanh"), one(), torch.tanh, 1e-6),
    "cuda_tanh": (unary("cuda_tanh"), one(), torch.tanh, 1e-6),
    "tanh_approx": (unary("tanh_approx"), one(), torch.tanh, 1e-3),
    "exp2_pairs": (unary("exp2_pairs"), one(), torch.exp2, 1e-6),
    "fp8e4nv": (unary("fp8e4nv"), one(3.0), lambda x: x.float().to(torch.float8_e4m3fn), 0.0),
    "fp8e5": (unary("fp8e5"), one(3.0), lambda x: x.float().to(torch.float8_e5m2), 0.0),
    "bf16": (unary("bf16"), one(), lambda x: x.float().to(torch.bfloat16), 0.0),
    "dropout": (dropout, lambda: (torch.ones(64, 64),), lambda x: torch.tensor(1.0), 1e-6),
}


class ModelNew(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case = case

    def forward(self, *inputs):
        return CASES[self.case][0](*inputs)
