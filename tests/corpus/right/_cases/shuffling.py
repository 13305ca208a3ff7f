"""Operations that move data: block pointers, joins, gathers, histograms, narrow dots, descriptor atomics."""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def block_pointer_kernel(x_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (0, tl.program_id(0) * BN), (BM, BN), (1, 0))
    out = tl.make_block_ptr(out_ptr, (M, N), (N, 1), (0, tl.program_id(0) * BN), (BM, BN), (1, 0))
    for _ in range(0, M, BM):
        tl.store(out, 2.0 * tl.load(x, boundary_check=(0, 1), padding_option="zero"), boundary_check=(0, 1))
        x = tl.advance(x, (BM, 0))
        out = tl.advance(out, (BM, 0))


@triton.jit
def shuffle_kernel(x_ptr, out_ptr, OP: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    if OP == "interleave":
        half: tl.constexpr = BLOCK // 2
        low, high = tl.split(tl.reshape(x, (half, 2)))
        y = tl.reshape(tl.join(high, low), (BLOCK,))
    elif OP == "flip":
        y = tl.flip(x, 0)
    elif OP == "gather":
        y = tl.gather(x, BLOCK - 1 - offsets, 0)
    elif OP == "histogram":
        y = tl.histogram(x, BLOCK)
    tl.store(out_ptr + offsets, y)


@triton.jit
def narrow_dot_kernel(a_ptr, b_ptr, out_ptr, SIZE: tl.constexpr):
    offsets = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    tl.store(out_ptr + offsets, tl.dot(tl.load(a_ptr + offsets), tl.load(b_ptr + offsets)))


@triton.jit
def descriptor_atomic_kernel(x_desc, out_desc, BM: tl.constexpr):
    out_desc.atomic_add([0, 0], x_desc.load([tl.program_id(0) * BM, 0]))


@triton.jit
def overlapping_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * (BLOCK // 2) + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, 2.0 * tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


def block_pointer(x):
    out = torch.empty_like(x)
    block_pointer_kernel[(triton.cdiv(x.shape[1], 16),)](x, out, *x.shape, BM=8, BN=16)
    return out


def shuffle(op):
    def forward(x):
        out = torch.empty(x.shape, dtype=x.dtype, device=0)
        shuffle_kernel[(1,)](x, out, OP=op, BLOCK=x.numel())
        return out

    return forward


def narrow_dot(a, b):
    out = torch.empty(a.shape, device=a.device, dtype=torch.int32 if a.dtype == torch.int8 else torch.float32)
    narrow_dot_kernel[(1,)](a, b, out, SIZE=a.shape[0])
    return out


def descriptor_atomic(x):
    out = torch.zeros(8, 16, device=x.device)
    x_desc, out_desc = (TensorDescriptor.from_tensor(t, [8, 16]) for t in (x, out))
    descriptor_atomic_kernel[(x.shape[0] // 8,)](x_desc, out_desc, BM=8)
    return out


def overlapping(x):
    """Programs write the same values twice: wasteful, but the result does not depend on their order."""
    out = torch.empty_like(x)
    overlapping_kernel[(triton.cdiv(x.numel(), 32),)](x, out, x.numel(), BLOCK=64)
    return out


def float8(a, b):
    return a.float() @ b.float()


CASES = {
    "block_pointer": (block_pointer, lambda: (torch.rand(13, 37),), lambda x: 2 * x, 0.0),
    "interleave": (shuffle("interleave"), lambda: (torch.rand(64),), lambda x: x.view(-1, 2).flip(1).reshape(-1), 0.0),
    "flip": (shuffle("flip"), lambda: (torch.rand(64),), lambda x: x.flip(0), 0.0),
    "gather": (shuffle("gather"), lambda: (torch.rand(64),), lambda x: x.flip(0), 0.0),
    "histogram_of_block": (
        shuffle("histogram"),
        lambda: (torch.randint(0, 64, (64,), dtype=torch.int32),),
        lambda x: torch.bincount(x, minlength=64),
        0.0,
    ),
    "int8_dot": (
        narrow_dot,
        lambda: tuple(torch.randint(-128, 128, (32, 32), dtype=torch.int8) for _ in range(2)),
        lambda a, b: a.long() @ b.long(),
        0.0,
    ),
    "fp8_dot": (
        narrow_dot,
        lambda: tuple(torch.randn(32, 32).to(torch.float8_e4m3fn) for _ in range(2)),
        float8,
        1e-6,
    ),
    "descriptor_atomic": (
        descriptor_atomic,
        lambda: (torch.rand(40, 16),),
        lambda x: x.view(5, 8, 16).sum(0),
        1e-6,
    ),
    "overlapping": (overlapping, lambda: (torch.rand(200),), lambda x: 2 * x, 0.0),
}


class ModelNew(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case = case

    def forward(self, *inputs):
        return CASES[self.case][0](*inputs)
