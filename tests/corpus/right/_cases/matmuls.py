"""Matrix products: precisions, TF32 rounding, batches, descriptors, persistent grids, convolution, attention."""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def rna(x):
    return tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    PRECISION: tl.constexpr, ROUND: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(2).to(tl.int64)
    a_ptr += batch * M * K
    b_ptr += batch * K * N
    c_ptr += batch * M * N
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(b_ptr + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        if ROUND:
            a = rna(a)
            b = rna(b)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    c = acc.to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], c, mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def host_descriptor_kernel(
    a_desc, b_desc, c_desc, M, N, K, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    tiles_n = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, PROGRAMS, flatten=True):
        m0 = tile // tiles_n * BM
        n0 = tile % tiles_n * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in tl.range(0, K, BK, num_stages=3):
            acc = tl.dot(rna(a_desc.load([m0, k])), rna(b_desc.load([n0, k]).T), acc)
        c_desc.store([m0, n0], acc)


@triton.jit
def device_descriptor_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    m0, n0 = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(rna(a_desc.load([m0, k])), rna(b_desc.load([n0, k])).T, acc)
    c_desc.store([m0, n0], acc)


@triton.jit
def conv_kernel(
    x_ptr, w_ptr, bias_ptr, out_ptr, H, W, C, OH, OW, OC,
    KH: tl.constexpr, KW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(1)
    pixel = tl.program_id(0) * BM + tl.arange(0, BM)
    oc = tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, C * KH * KW, BK):
        r = start + tl.arange(0, BK)
        c, kh, kw = r // (KH * KW), r // KW % KH, r % KW
        h, w = pixel[:, None] // OW + kh[None, :], pixel[:, None] % OW + kw[None, :]
        x_offsets = ((n * C + c[None, :]) * H + h) * W + w
        inside = r < C * KH * KW
        x = tl.load(x_ptr + x_offsets, mask=(pixel[:, None] < OH * OW) & inside[None, :], other=0.0)
        w_offsets = oc[None, :] * (C * KH * KW) + r[:, None]
        weight = tl.load(w_ptr + w_offsets, mask=inside[:, None] & (oc[None, :] < OC), other=0.0)
        acc = tl.dot(x, weight, acc, input_precision="ieee")
    acc += tl.load(bias_ptr + oc, mask=oc < OC, other=0.0)[None, :]
    out_offsets = (n * OC + oc[None, :]) * OH * OW + pixel[:, None]
    tl.store(out_ptr + out_offsets, acc, mask=(pixel[:, None] < OH * OW) & (oc[None, :] < OC))


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1) * S * D
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    q = tl.load(q_ptr + head + rm[:, None] * D + rd[None, :], mask=rm[:, None] < S, other=0.0)
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for n in range(0, tl.minimum((tl.program_id(0) + 1) * BM, S), BN):
        rn = n + tl.arange(0, BN)
        k = tl.load(k_ptr + head + rn[None, :] * D + rd[:, None], mask=rn[None, :] < S, other=0.0)
        s = tl.dot(q, k, input_precision="ieee") * scale
        s = tl.where((rm[:, None] >= rn[None, :]) & (rn[None, :] < S), s, -float("inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new_top[:, None])
        shrink = tl.exp(top - new_top)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + head + rn[:, None] * D + rd[None, :], mask=rn[:, None] < S, other=0.0)
        acc = acc * shrink[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        top = new_top
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + head + rm[:, None] * D + rd[None, :], out, mask=rm[:, None] < S)


def matmul(precision="tf32", round=False, blocks=(64, 64, 32), **options):
    def forward(a, b):
        batch, (M, K), N = (a.shape[0] if a.dim() == 3 else 1), a.shape[-2:], b.shape[-1]
        c = torch.empty((*a.shape[:-1], N), device=a.device, dtype=a.dtype)
        BM, BN, BK = blocks
        grid = (triton.cdiv(M, BM), triton.cdiv(N, BN), batch)
        matmul_kernel[grid](a, b, c, M, N, K, PRECISION=precision, ROUND=round, BM=BM, BN=BN, BK=BK, **options)
        return c

    return forward


def host_descriptor(a, b):
    (M, K), N = a.shape, b.shape[0]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    descriptors = [TensorDescriptor.from_tensor(t, block) for t, block in ((a, [64, 32]), (b, [32, 32]), (c, [64, 32]))]
    programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    programs = min(programs, triton.cdiv(M, 64) * triton.cdiv(N, 32))
    host_descriptor_kernel[(programs,)](*descriptors, M, N, K, PROGRAMS=programs, BM=64, BN=32, BK=32, num_warps=4)
    return c


def device_descriptor(a, b):
    (M, K), N = a.shape, b.shape[0]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    device_descriptor_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](a, b, c, M, N, K, BM=64, BN=64, BK=32)
    return c


def conv(x, w, bias):
    (n, c, H, W), (oc, _, kh, kw) = x.shape, w.shape
    oh, ow = H - kh + 1, W - kw + 1
    out = torch.empty((n, oc, oh, ow), device=x.device)
    conv_kernel[(triton.cdiv(oh * ow, 64), n)](x, w, bias, out, H, W, c, oh, ow, oc, KH=kh, KW=kw, BM=64, BN=32, BK=32)
    return out


def attention(q, k, v):
    out = torch.empty_like(q)
    b, h, S, D = q.shape
    attention_kernel[(triton.cdiv(S, 32), b * h)](q, k, v, out, S, D**-0.5, D=D, BM=32, BN=32)
    return out


def pair(a=(64, 96), b=(96, 130), dtype=torch.float32):
    return lambda: (torch.rand(a).to(dtype), torch.rand(b).to(dtype))


def qkv(dtype=torch.float32):
    return lambda: tuple(torch.randn(1, 2, 50, 32).to(dtype) for _ in range(3))


def causal(q, k, v):
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def transposed(a, b):
    return a @ b.T


CASES = {
    "matmul_ieee": (matmul("ieee"), pair(), torch.matmul, 1e-6),
    "matmul_tf32": (matmul("tf32"), pair(), torch.matmul, 1e-3),
    "matmul_tf32_rounded": (matmul("tf32", True), pair(), torch.matmul, 6e-5),
    "matmul_tf32x3": (matmul("tf32x3"), pair(), torch.matmul, 2e-6),
    "matmul_bf16": (matmul(), pair(dtype=torch.bfloat16), torch.matmul, 4e-3),
    "matmul_fp16": (matmul(), pair(dtype=torch.float16), torch.matmul, 5e-4),
    "bmm": (matmul("ieee"), pair((3, 33, 40), (3, 40, 20)), torch.matmul, 1e-6),
    "host_descriptor": (host_descriptor, pair((70, 40), (52, 40)), transposed, 1e-4),
    "device_descriptor": (device_descriptor, pair((70, 40), (52, 40)), transposed, 1e-4),
    "conv": (
        conv,
        lambda: (torch.randn(2, 5, 12, 13), torch.randn(20, 5, 3, 3), torch.randn(20)),
        nn.functional.conv2d,
        1e-6,
    ),
    "attention": (attention, qkv(), causal, 1e-6),
    "attention_bf16": (attention, qkv(torch.bfloat16), causal, 1e-2),
}
SHARED_MEMORY_HOG = matmul("tf32", blocks=(128, 256, 64), num_warps=8, num_stages=4)
CASES["shared_memory_hog"] = (SHARED_MEMORY_HOG, pair((128, 64), (64, 256)), torch.matmul, 1e-3)


class ModelNew(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case = case

    def forward(self, *inputs):
        return CASES[self.case][0](*inputs)
