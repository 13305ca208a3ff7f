"""Split-K, for few output tiles and a long K: programs share one tile's sum, and a second pass adds their shares."""

from egg_graph.expert.playbooks.gemm.spec import GemmSpec, assemble

KERNEL = '''@triton.jit
def {name}_kernel(
    a_ptr, b_ptr, parts_ptr, M, N, K, {strides},
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):
    """parts[s, m, n] = the share s of sum over k of a[m, k] * b[k, n]: every SPLIT_K-th block of BLOCK_K."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    share = tl.program_id(0) % SPLIT_K
    tile = tl.program_id(0) // SPLIT_K
    matrix = (tile // (tiles_m * tiles_n)).to(tl.int64)
    rows = (tile // tiles_n % tiles_m) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tile % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    in_rows = (rows < M)[:, None]
    in_cols = (cols < N)[None, :]
    a_rows = a_ptr + matrix * stride_az + rows.to(tl.int64)[:, None] * stride_am
    b_cols = b_ptr + matrix * stride_bz + cols.to(tl.int64)[None, :] * stride_bn

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(share * BLOCK_K, K, SPLIT_K * BLOCK_K):
        k = start + ks
        a = tl.load(a_rows + k.to(tl.int64)[None, :] * stride_ak, mask=in_rows & (k < K)[None, :], other=0.0)
        b = tl.load(b_cols + k.to(tl.int64)[:, None] * stride_bk, mask=in_cols & (k < K)[:, None], other=0.0)
        acc = tl.dot({a}, {b}, acc{precision})

    part_ptrs = parts_ptr + ((matrix * SPLIT_K + share) * M + rows)[:, None] * N + cols[None, :]
    tl.store(part_ptrs, acc, mask=in_rows & in_cols)
'''

SUM = '''@triton.jit
def {name}_sum_kernel(
    parts_ptr, out_ptr, M, N,{parameters}
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SPLIT_K: tl.constexpr,
):
    """out[m, n] = epilogue(sum over s of parts[s, m, n]), in one order: without atomics the result repeats."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    matrix = (tl.program_id(0) // (tiles_m * tiles_n)).to(tl.int64)
    rows = (tl.program_id(0) // tiles_n % tiles_m) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tl.program_id(0) % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (rows < M)[:, None] & (cols < N)[None, :]

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for share in range(0, SPLIT_K):
        part_ptrs = parts_ptr + ((matrix * SPLIT_K + share) * M + rows)[:, None] * N + cols[None, :]
        acc += tl.load(part_ptrs, mask=inside, other=0.0)

    out = {epilogue}
    out_ptrs = out_ptr + (matrix * M + rows)[:, None] * N + cols[None, :]
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=inside)
'''

LAUNCH = """    split_k = {split_k}
    parts = torch.empty(({matrices}, split_k, M, N), device=a.device, dtype=torch.float32)
    tiles = {matrices} * triton.cdiv(M, {block_m}) * triton.cdiv(N, {block_n})
    {name}_kernel[(tiles * split_k,)](
        a, b, parts, M, N, K, {strides},
{options}
    )
"""

SUM_LAUNCH = """    {name}_sum_kernel[({matrices} * triton.cdiv(M, {block_m}) * triton.cdiv(N, {block_n}),)](
        parts, out, M, N,{arguments}
        BLOCK_M={block_m},
        BLOCK_N={block_n},
        SPLIT_K=split_k,
        num_warps=4,
    )
    return out
"""


def write_split_k(spec: GemmSpec) -> str:
    """Write both kernels and the wrapper."""
    batched = spec.batched
    kernel = KERNEL.format(
        name=spec.name,
        strides="stride_az, stride_am, stride_ak, stride_bz, stride_bk, stride_bn",
        a=spec.rounded("a"),
        b=spec.rounded("b"),
        precision=spec.precision,
    )
    launch = LAUNCH.format(
        name=spec.name,
        split_k=spec.knob("SPLIT_K"),
        matrices="matrices" if batched else "1",
        block_m=spec.knob("BLOCK_M"),
        block_n=spec.knob("BLOCK_N"),
        strides=spec.strides() if batched else "0, a.stride(0), a.stride(1), 0, b.stride(0), b.stride(1)",
        options=spec.launch_options("BLOCK_M", "BLOCK_N", "BLOCK_K", "SPLIT_K", "num_warps", "num_stages"),
    )
    return assemble(
        spec.epilogue.source, kernel, write_sum(spec), spec.wrapper_head() + launch + write_sum_launch(spec, 16, 64)
    )


def write_sum(spec: GemmSpec) -> str:
    """Write the second pass, which adds the shares of a tile and applies the epilogue."""
    return SUM.format(
        name=spec.name,
        parameters=spec.epilogue_parameters,
        epilogue=spec.epilogue.call("acc", "rows", "cols", "matrix" if spec.batched else ""),
    )


def write_sum_launch(spec: GemmSpec, block_m: int, block_n: int) -> str:
    """Write the wrapper's launch of the second pass, with a tile a program, and its return."""
    return SUM_LAUNCH.format(
        name=spec.name,
        matrices="matrices" if spec.batched else "1",
        block_m=block_m,
        block_n=block_n,
        arguments=spec.epilogue_arguments,
    )
