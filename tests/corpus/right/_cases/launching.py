"""Atomics, autotuning, heuristics, tuples, and wrappers that ask the GPU for its properties."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + offsets, mask=offsets < n, other=0.0), 0))


@triton.jit
def histogram_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.atomic_add(out_ptr + tl.load(x_ptr + offsets, mask=mask, other=0), 1, mask=mask)


@triton.jit
def last_block_kernel(x_ptr, partial_ptr, ticket_ptr, out_ptr, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial_ptr + pid, tl.sum(tl.load(x_ptr + offsets, mask=offsets < n, other=0.0), 0))
    if tl.atomic_add(ticket_ptr, 1) == PROGRAMS - 1:
        tl.store(out_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, PROGRAMS)), 0))


@triton.jit
def everyone_waits_kernel(
    x_ptr, parts_ptr, arrived_ptr, out_ptr, n, ROUNDS, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr
):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    for i in range(ROUNDS):
        tl.store(parts_ptr + i * PROGRAMS + pid, tl.sum(x, 0))
        tl.debug_barrier()
        tl.atomic_add(arrived_ptr, 1, sem="release")
        while tl.atomic_add(arrived_ptr, 0, sem="acquire") < PROGRAMS * (i + 1):
            pass
        x += tl.sum(tl.load(parts_ptr + i * PROGRAMS + tl.arange(0, PROGRAMS), cache_modifier=".cg"), 0)
    tl.store(out_ptr + offsets, x, mask=offsets < n)


@triton.autotune(
    configs=[triton.Config({"BLOCK": 256}, num_warps=2), triton.Config({"BLOCK": 1024}, num_warps=4)], key=["n"]
)
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, 2.0 * tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def heuristic_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out_ptr + offsets, 2.0 * tl.load(x_ptr + offsets))
    else:
        tl.store(out_ptr + offsets, 2.0 * tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


@triton.jit
def tuple_kernel(pointers, shape, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < shape[0] * shape[1]
    tl.store(pointers[1] + offsets, 2.0 * tl.load(pointers[0] + offsets, mask=mask), mask=mask)


@triton.jit
def strided_kernel(x_ptr, out_ptr, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    for block in tl.range(tl.program_id(0), tl.cdiv(n, BLOCK), PROGRAMS, num_stages=2):
        offsets = block * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + offsets, 2.0 * tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


def atomic_sum(x):
    out = torch.zeros((), device=x.device)
    sum_kernel[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
    return out


def histogram(x):
    out = torch.zeros(16, device=x.device, dtype=torch.int32)
    histogram_kernel[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
    return out


def last_block(x):
    partial, ticket = torch.empty(8, device=x.device), torch.zeros(1, device=x.device, dtype=torch.int32)
    out = torch.empty((), device=x.device)
    last_block_kernel[(8,)](x, partial, ticket, out, x.numel(), PROGRAMS=8, BLOCK=256)
    return out


def everyone_waits(x):
    parts, out = torch.empty(3, 8, device=x.device), torch.empty_like(x)
    arrived = torch.zeros(1, device=x.device, dtype=torch.int32)
    everyone_waits_kernel[(8,)](
        x, parts, arrived, out, x.numel(), 3, PROGRAMS=8, BLOCK=256, launch_cooperative_grid=True
    )
    return out


def sums_of_all(x):
    padded = torch.cat([x, x.new_zeros(2048 - x.numel())])
    for _ in range(3):
        padded = padded + padded.sum()
    return padded[: x.numel()]


def tuned(x):
    out = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out


def heuristic(x):
    out = torch.empty_like(x)
    heuristic_kernel[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
    return out


def tuples(x):
    out = torch.empty_like(x)
    tuple_kernel[(triton.cdiv(x.numel(), 128),)]((x, out), tuple(x.shape), BLOCK=128)
    return out


def by_property(x):
    assert x.is_cuda and x.device.type == "cuda"
    device = triton.runtime.driver.active.get_active_torch_device()
    programs = triton.runtime.driver.active.utils.get_device_properties(device.index)["multiprocessor_count"]
    out = torch.empty_like(x, device=device)
    with torch.cuda.device(x.device):
        strided_kernel[(min(programs, 4),)](x.cuda(), out.to("cuda"), x.numel(), PROGRAMS=min(programs, 4), BLOCK=64)
    torch.cuda.synchronize()
    return torch.compile(lambda t: t)(out)


def warmed_up(x):
    out, n = torch.empty_like(x), x.numel()
    kernel = strided_kernel.warmup(x, out, n, PROGRAMS=4, BLOCK=64, num_warps=2, grid=(1,))
    kernel._init_handles()
    room = 65536 // (kernel.n_regs * 32 * kernel.metadata.num_warps)
    assert kernel.n_spills == kernel.metadata.shared == 0
    kernel[(min(room, 4),)](x, out, n, min(room, 4), 64)
    return out


def in_slices(x):
    out, quarter = torch.empty_like(x), x.numel() // 4
    for start in range(0, x.numel(), quarter):
        strided_kernel[(2,)](x[start:], out[start:], quarter, PROGRAMS=2, BLOCK=64)
    return out


def numbers(n=1000):
    return lambda: (torch.rand(n),)


def twice(x):
    return 2 * x


CASES = {
    "atomic_sum": (atomic_sum, numbers(), torch.sum, 1e-6),
    "histogram": (
        histogram,
        lambda: (torch.randint(0, 16, (1000,)),),
        lambda x: torch.bincount(x, minlength=16),
        0.0,
    ),
    "last_block": (last_block, numbers(2000), torch.sum, 1e-6),
    "everyone_waits": (everyone_waits, numbers(2000), sums_of_all, 1e-6),
    "tuned": (tuned, numbers(), twice, 0.0),
    "heuristic": (heuristic, numbers(), twice, 0.0),
    "tuples": (tuples, lambda: (torch.rand(10, 33),), twice, 0.0),
    "by_property": (by_property, numbers(), twice, 0.0),
    "in_slices": (in_slices, numbers(), twice, 0.0),
    "warmed_up": (warmed_up, numbers(), twice, 0.0),
}


class ModelNew(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case = case

    def forward(self, *inputs):
        return CASES[self.case][0](*inputs)
