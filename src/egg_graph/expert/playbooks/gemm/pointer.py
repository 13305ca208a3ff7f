"""The plain structure of a matrix product: one program per tile of the output, operands read through their strides."""

from egg_graph.expert.playbooks.gemm.spec import GemmSpec, assemble

KERNEL = '''@triton.jit
def {name}_kernel(
    a_ptr, b_ptr, out_ptr,{parameters}
    M, N, K, {strides},
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, EVEN_K: tl.constexpr,
):
    """out[m, n] = epilogue(sum over k of a[m, k] * b[k, n]), one program for each BLOCK_M x BLOCK_N tile.

    Operands are read through their strides, so that transposes and views cost no copy. Sums are in fp32.
    """
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
{tile}    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows.to(tl.int64)[:, None] * stride_am + ks[None, :] * stride_ak
    b_ptrs = b_ptr + ks[:, None] * stride_bk + cols.to(tl.int64)[None, :] * stride_bn
    in_rows = (rows < M)[:, None]
    in_cols = (cols < N)[None, :]

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        if EVEN_K:
            a = tl.load(a_ptrs, mask=in_rows, other=0.0)
            b = tl.load(b_ptrs, mask=in_cols, other=0.0)
        else:
            a = tl.load(a_ptrs, mask=in_rows & (ks < K - k)[None, :], other=0.0)
            b = tl.load(b_ptrs, mask=in_cols & (ks < K - k)[:, None], other=0.0)
        acc = tl.dot({a}, {b}, acc{precision})
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk

    out = {epilogue}
    out_ptrs = out_ptr + rows.to(tl.int64)[:, None] * N + cols[None, :]
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=in_rows & in_cols)
'''

TILE = "    tile_m, tile_n = grouped_tile(tl.program_id(0), tiles_m, tiles_n, GROUP_M)\n"
BATCHED_TILE = """    tile_m, tile_n = grouped_tile(tl.program_id(0) % (tiles_m * tiles_n), tiles_m, tiles_n, GROUP_M)
    matrix = (tl.program_id(0) // (tiles_m * tiles_n)).to(tl.int64)
    a_ptr += matrix * stride_az
    b_ptr += matrix * stride_bz
    out_ptr += matrix * M * N
"""

LAUNCH = """    grid = ({matrices}triton.cdiv(M, {block_m}) * triton.cdiv(N, {block_n}),)
    {name}_kernel[grid](
        a, b, out,{arguments}
        M, N, K, {strides},
{options}
        EVEN_K=K % {block_k} == 0,
    )
    return out
"""


def write_pointer(spec: GemmSpec) -> str:
    """Write kernel and wrapper."""
    batched, epilogue = spec.batched, spec.epilogue
    kernel = KERNEL.format(
        name=spec.name,
        parameters=spec.epilogue_parameters,
        strides="stride_az, stride_am, stride_ak, stride_bz, stride_bk, stride_bn"
        if batched
        else "stride_am, stride_ak, stride_bk, stride_bn",
        tile=BATCHED_TILE if batched else TILE,
        a=spec.rounded("a"),
        b=spec.rounded("b"),
        precision=spec.precision,
        epilogue=epilogue.call("acc", "rows", "cols", "matrix" if batched else ""),
    )
    launch = LAUNCH.format(
        name=spec.name,
        matrices="matrices * " if batched else "",
        arguments=spec.epilogue_arguments,
        strides=spec.strides(),
        options=spec.launch_options("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "num_warps", "num_stages"),
        **{knob.lower(): spec.knob(knob) for knob in ("BLOCK_M", "BLOCK_N", "BLOCK_K")},
    )
    return assemble(epilogue.source, kernel, spec.wrapper_head() + launch)
