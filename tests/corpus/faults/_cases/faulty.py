"""One planted mistake per case; `# fault` marks the line that the guard must name."""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def load_past_end(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)  # fault: load_past_end
    tl.store(out_ptr + offsets, x, mask=offsets < n)


@triton.jit
def store_past_end(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x, mask=offsets <= n)  # fault: store_past_end


@triton.jit
def load_before_start(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets - 1, mask=offsets < n)  # fault: load_before_start
    tl.store(out_ptr + offsets, x, mask=offsets < n)


@triton.jit
def accumulate(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(out_ptr) + tl.sum(tl.load(x_ptr + offsets, mask=offsets < n, other=0.0), 0)  # fault: accumulate
    tl.store(out_ptr, total)


@triton.jit
def everyone_stores(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x_ptr + offsets, mask=offsets < n, other=0.0), 0)
    tl.store(out_ptr, total)  # fault: everyone_stores


@triton.jit
def shift_in_place(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(out_ptr + offsets + 1, mask=offsets + 1 < n, other=0.0)
    tl.store(out_ptr + offsets, x, mask=offsets < n)  # fault: shift_in_place


@triton.jit
def lanes_collide(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets // 2, x, mask=offsets < n)  # fault: lanes_collide


@triton.jit
def no_barrier(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    turned = tl.program_id(0) * BLOCK + (tl.arange(0, BLOCK) + BLOCK // 2) % BLOCK
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0) + 1, mask=at < n)
    tl.debug_barrier()
    x = tl.load(out_ptr + turned, mask=turned < n, other=0.0)
    tl.debug_barrier()
    tl.store(out_ptr + at, x * 2, mask=at < n)
    x = tl.load(out_ptr + turned, mask=turned < n, other=0.0)  # fault: no_barrier
    tl.debug_barrier()
    tl.store(out_ptr + at, x, mask=at < n)


@triton.jit
def wrote_after_its_ticket(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0), 0)
    tl.atomic_add(out_ptr + 1, 1.0)
    tl.store(out_ptr, tl.load(out_ptr) + part)  # fault: wrote_after_its_ticket


@triton.jit
def off_by_one_mask(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x, mask=offsets < n - 1)


@triton.jit
def max_of_undefined(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < BLOCK - 1)
    tl.store(out_ptr, tl.max(x, 0))


@triton.jit
def unknown_libdevice(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, libdevice.jn(2, x), mask=offsets < n)  # fault: unknown_libdevice


@triton.jit
def unknown_assembly(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.inline_asm_elementwise("bfe.u32 $0, $1, 0, 4;", "=r,r", [x], tl.float32, True, 1)  # fault: unknown_assembly
    tl.store(out_ptr + offsets, y, mask=offsets < n)


@triton.jit
def missing_import(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x * math.pi, mask=offsets < n)  # fault: missing_import


@triton.jit
def overflow(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + offsets, mask=offsets < columns)  # fault: overflow
    tl.store(out_ptr + row.to(tl.int64) * columns + offsets, x, mask=offsets < columns)


@triton.jit
def break_in_loop(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
        if start > 100:
            break  # fault: break_in_loop
    tl.store(out_ptr, tl.sum(total, 0))


@triton.jit
def inner(x):
    return tl.math.tanh(x)  # fault: no_such_function


@triton.jit
def no_such_function(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, inner(tl.load(x_ptr + offsets, mask=offsets < n)), mask=offsets < n)


@triton.jit
def uncovered(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


@triton.jit
def branch_on_block(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    if x > 0:  # fault: branch_on_block
        x = -x
    tl.store(out_ptr + offsets, x, mask=offsets < n)


@triton.jit
def while_on_block(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    while x > 0:  # fault: while_on_block
        x -= 1
    tl.store(out_ptr + offsets, x, mask=offsets < n)


@triton.jit
def asks_python(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    least = sorted((x, -x))  # fault: asks_python
    tl.store(out_ptr + offsets, least[0], mask=offsets < n)


@triton.jit
def chain_of_comparisons(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = 0 <= offsets < n  # fault: chain_of_comparisons
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def counts_down(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    step = tl.program_id(0) - 1
    for start in range(n, 0, step):  # fault: counts_down
        tl.store(out_ptr + start - 1, tl.load(x_ptr + start - 1))


@triton.jit
def numbers_in_words(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(out_ptr + offsets, not x, mask=offsets < n)  # fault: numbers_in_words


@triton.jit
def waits_for_the_next(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    done = 0.0
    while done < tl.num_programs(0):  # fault: waits_for_the_next
        done = tl.atomic_add(out_ptr, 0.0)
    tl.atomic_add(out_ptr, 1.0)


@triton.jit
def everyone_waits_first(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    while tl.atomic_add(out_ptr, 0.0) < tl.num_programs(0):  # fault: everyone_waits_first
        pass
    tl.atomic_add(out_ptr, 1.0)


@triton.jit
def reads_before_all_arrive(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(out_ptr + 1 + pid, tl.load(x_ptr + pid))  # fault: reads_before_all_arrive
    tl.debug_barrier()
    tl.atomic_add(out_ptr, 1.0)
    while tl.atomic_add(out_ptr, 0.0) < 2:
        pass
    tl.store(out_ptr + 4 + pid, tl.load(out_ptr + 1 + (pid + 1) % 3))


@triton.jit
def whole_blocks(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))  # fault: last_slice


KERNELS = {k.__name__: k for k in (
    no_barrier, wrote_after_its_ticket, load_past_end, store_past_end, load_before_start, accumulate, everyone_stores,
    shift_in_place, lanes_collide,
    off_by_one_mask, max_of_undefined, unknown_libdevice, unknown_assembly, missing_import, break_in_loop,
    no_such_function, uncovered, branch_on_block, while_on_block, asks_python, chain_of_comparisons, counts_down,
    numbers_in_words, waits_for_the_next, everyone_waits_first, reads_before_all_arrive,
)}  # fmt: skip
TOGETHER = {"everyone_waits_first", "reads_before_all_arrive"}
SCALARS = {"accumulate", "everyone_stores", "max_of_undefined", "break_in_loop"}


class ModelNew(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case = case

    def forward(self, x):
        n = x.numel()
        if self.case == "overflow":
            out = torch.empty_like(x)
            overflow[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
            return out
        if self.case == "last_slice":
            out = torch.empty(192, device=x.device)
            for start in range(0, n, 64):
                whole_blocks[(1,)](x[start:], out[start:], BLOCK=64)
            return out
        if self.case in ("accumulate", "waits_for_the_next", "everyone_waits_first"):
            out = torch.zeros((), device=x.device)
        elif self.case == "reads_before_all_arrive":
            out = torch.zeros(7, device=x.device)
        elif self.case == "wrote_after_its_ticket":
            out = torch.zeros(2, device=x.device)
        elif self.case == "shift_in_place":
            out = x.clone()
        else:
            out = torch.empty(() if self.case in SCALARS else x.shape, device=x.device)
        if self.case == "unknown_option":
            uncovered[(1,)](x, out, n, BLOCK=64, num_warp=4)
        elif self.case == "huge_grid":
            uncovered[(1, 100_000)](x, out, n, BLOCK=64)
        elif self.case == "uncovered":
            uncovered[(n // 64,)](x, out, n, BLOCK=64)
        else:
            together = {"launch_cooperative_grid": True} if self.case in TOGETHER else {}
            KERNELS[self.case][(triton.cdiv(n, 64),)](x, out, n, BLOCK=64, **together)
        return out
