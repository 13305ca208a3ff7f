"""Row kernels: softmax, norms, reductions with own combine functions, scans, sorting."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * stride + offsets, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * stride + offsets, e / tl.sum(e, axis=0), mask=mask)


@triton.jit
def layer_norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * columns + offsets, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / columns + eps)
    y = centred * scale * tl.load(w_ptr + offsets, mask=mask) + tl.load(b_ptr + offsets, mask=mask)
    tl.store(out_ptr + row * columns + offsets, y, mask=mask)


@triton.jit
def log_sum_exp_pair(m1, s1, m2, s2):
    m = tl.maximum(m1, m2)
    return m, s1 * tl.exp(m1 - m) + s2 * tl.exp(m2 - m)


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def row_kernel(x_ptr, out_ptr, columns, OP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    other = -float("inf")
    if OP == "cumsum" or OP == "reverse_cumsum":
        other = 0.0
    elif OP == "cumprod":
        other = 1.0
    elif OP == "log_sum_exp":
        other = -1e30
    elif OP == "sort":
        other = float("inf")
    x = tl.load(x_ptr + row * columns + offsets, mask=mask, other=other)
    if OP == "max":
        tl.store(out_ptr + row, tl.max(x, 0))
    elif OP == "argmax":
        tl.store(out_ptr + row, tl.argmax(x, 0).to(tl.int64))
    elif OP == "log_sum_exp":
        m, s = tl.reduce((x, tl.full((BLOCK,), 1.0, tl.float32)), 0, log_sum_exp_pair)
        tl.store(out_ptr + row, m + tl.log(s))
    elif OP == "cumsum":
        tl.store(out_ptr + row * columns + offsets, tl.cumsum(x, 0), mask=mask)
    elif OP == "reverse_cumsum":
        tl.store(out_ptr + row * columns + offsets, tl.cumsum(x, 0, reverse=True), mask=mask)
    elif OP == "cumprod":
        tl.store(out_ptr + row * columns + offsets, tl.associative_scan(x, 0, multiply), mask=mask)
    elif OP == "sort":
        tl.store(out_ptr + row * columns + offsets, tl.sort(x, dim=0), mask=mask)


@triton.jit
def cross_entropy_kernel(x_ptr, target_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=-float("inf"))
    top = tl.max(x, 0)
    log_sum = top + tl.log(tl.sum(tl.exp(x - top), 0))
    chosen = tl.load(x_ptr + row * columns + tl.load(target_ptr + row))
    tl.store(out_ptr + row, log_sum - chosen)


@triton.jit
def column_sum_kernel(x_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), tl.float32)
    start = 0
    while start < rows:
        r = start + tl.arange(0, ROWS)
        mask = (r[:, None] < rows) & (c[None, :] < columns)
        total += tl.sum(tl.load(x_ptr + r[:, None] * columns + c[None, :], mask=mask, other=0.0), axis=0)
        start += ROWS
    tl.device_assert(rows > 0, "no rows")
    tl.store(out_ptr + c, total, mask=c < columns)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], x.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def layer_norm(x, w, b):
    out = torch.empty_like(x)
    layer_norm_kernel[(x.shape[0],)](x, w, b, out, x.shape[1], 1e-5, BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def row(op, shape=None, dtype=None):
    def forward(x):
        out = torch.empty(x.shape if shape is None else (x.shape[0],), device=x.device, dtype=dtype or x.dtype)
        row_kernel[(x.shape[0],)](x, out, x.shape[1], OP=op, BLOCK=triton.next_power_of_2(x.shape[1]))
        return out

    return forward


def cross_entropy(x, target):
    out = torch.empty(x.shape[0], device=x.device)
    cross_entropy_kernel[(x.shape[0],)](x, target, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out.mean()


def column_sum(x):
    out = x.new_empty(x.shape[1])
    column_sum_kernel[(triton.cdiv(x.shape[1], 32),)](x, out, *x.shape, ROWS=16, COLUMNS=32)
    return out


@triton.jit
def persistent_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    """Every loop variable is used as what it is in a compiled kernel: a scalar tensor."""
    for i in range(tl.program_id(0), rows, tl.num_programs(0)):
        total = tl.zeros((BLOCK,), tl.float32)
        for start in tl.range(0, columns, BLOCK, num_stages=2):
            offsets = start.to(tl.int64) + tl.arange(0, BLOCK)
            total += tl.load(x_ptr + i.to(tl.int64) * columns + offsets, mask=offsets < columns, other=0.0)
        for k in range(2):
            if k == 1:
                total = total * 2.0 * k.to(tl.float32)
        for k in tl.static_range(1, 3):  # a constant: it may be a size
            total += tl.sum(tl.zeros((2 * k,), tl.float32), 0)
        tl.store(out_ptr + i, tl.sum(total, 0))


def persistent(x):
    out = x.new_empty(x.shape[0])
    persistent_kernel[(3,)](x, out, *x.shape, BLOCK=32)
    return out


def matrix(rows=5, columns=77):
    return lambda: (torch.randn(rows, columns),)


CASES = {
    "softmax": (softmax, matrix(3, 513), lambda x: x.softmax(-1), 1e-6),
    "layer_norm": (
        layer_norm,
        lambda: (torch.randn(5, 77), torch.randn(77), torch.randn(77)),
        lambda x, w, b: nn.functional.layer_norm(x, (x.shape[1],), w, b),
        1e-6,
    ),
    "max": (row("max", ()), matrix(), lambda x: x.amax(-1), 0.0),
    "argmax": (row("argmax", (), torch.int64), matrix(), lambda x: x.argmax(-1), 0.0),
    "log_sum_exp": (row("log_sum_exp", ()), matrix(), lambda x: x.logsumexp(-1), 1e-6),
    "cumsum": (row("cumsum"), matrix(), lambda x: x.cumsum(-1), 1e-6),
    "reverse_cumsum": (row("reverse_cumsum"), matrix(), lambda x: x.flip(-1).cumsum(-1).flip(-1), 1e-6),
    "cumprod": (row("cumprod"), lambda: (1 + 0.01 * torch.randn(5, 77),), lambda x: x.cumprod(-1), 1e-6),
    "sort": (row("sort"), matrix(4, 64), lambda x: x.sort(-1).values, 0.0),
    "cross_entropy": (
        cross_entropy,
        lambda: (torch.randn(9, 77), torch.randint(0, 77, (9,))),
        nn.functional.cross_entropy,
        1e-6,
    ),
    "persistent": (persistent, matrix(8, 77), lambda x: 2 * x.sum(1), 1e-6),
    "column_sum": (column_sum, matrix(50, 77), lambda x: x.sum(0), 1e-6),
}


class ModelNew(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case = case

    def forward(self, *inputs):
        return CASES[self.case][0](*inputs)
