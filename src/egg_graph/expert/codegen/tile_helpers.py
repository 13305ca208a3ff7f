"""Device and host functions that kernels of matrix products and attention share, as source text."""

TILE_HELPERS: dict[str, str] = {
    "tensor_descriptor": "from triton.tools.tensor_descriptor import TensorDescriptor\n",
    "grouped_tile": '''@triton.jit
def grouped_tile(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Row and column of a tile. Tiles run down GROUP_M rows before the next column: neighbours share operands in L2."""
    group = tile // (GROUP_M * tiles_n)
    first = group * GROUP_M
    height = tl.minimum(tiles_m - first, GROUP_M)
    inside = tile % (GROUP_M * tiles_n)
    return first + inside % height, inside // height
''',
    "column_halves": '''@triton.jit
def column_halves(x):
    """Left and right half of a tile's columns."""
    M: tl.constexpr = x.shape[0]
    N: tl.constexpr = x.shape[1]
    return tl.split(tl.permute(tl.reshape(x, (M, 2, N // 2)), (0, 2, 1)))
''',
    "tma_ready": '''def tma_ready(x):
    """Whether the tensor memory accelerator can read x: last axis contiguous, other strides multiples of 16 bytes."""
    aligned = all(stride * x.element_size() % 16 == 0 for stride in (*x.stride()[:-1], x.storage_offset()))
    return x.stride(-1) == 1 and aligned and 0 not in x.stride()
''',
    "tf32_descriptor": '''TMA_ROUNDS = hasattr(TensorDescriptor, "round_f32_to_tf32")  # since Triton 3.7


def tf32_descriptor(x, block_shape):
    """Describe x to the tensor memory accelerator, which rounds what it loads to TF32 where Triton can ask for it."""
    if TMA_ROUNDS:
        return TensorDescriptor.from_tensor(x, block_shape, round_f32_to_tf32=True)
    return TensorDescriptor.from_tensor(x, block_shape)
''',
    "pack_rows": '''@triton.jit
def pack_rows_kernel(
    x_ptr, packed_ptr, H, R, K, PITCH, stride_b, stride_h, stride_r, stride_k,
    ROUND: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """packed[b, h, r, k] = x[b, h, r, k] from any strides, zeros from K up to PITCH; rounded to TF32 under ROUND."""
    tiles_k = tl.cdiv(PITCH, BLOCK_K)
    tiles = tl.cdiv(R, BLOCK_R) * tiles_k
    matrix = (tl.program_id(0) // tiles).to(tl.int64)
    tile = tl.program_id(0) % tiles
    r = (tile // tiles_k) * BLOCK_R + tl.arange(0, BLOCK_R)
    k = (tile % tiles_k) * BLOCK_K + tl.arange(0, BLOCK_K)
    source = x_ptr + (matrix // H) * stride_b + (matrix % H) * stride_h
    source += r.to(tl.int64)[:, None] * stride_r + k.to(tl.int64)[None, :] * stride_k
    x = tl.load(source, mask=(r < R)[:, None] & (k < K)[None, :], other=0.0)
    if ROUND:
        x = round_to_tf32(x)
    target = packed_ptr + (matrix * R + r)[:, None] * PITCH + k[None, :]
    tl.store(target, x, mask=(r < R)[:, None] & (k < PITCH)[None, :])


def pack_rows(x, round_tf32):
    """A copy of x [B, H, R, K] that tensor cores and the tensor memory accelerator can take: rows of K neighbours in
    memory, each starting on 16 bytes (padded with zeros), rounded to TF32 here once instead of at every use."""
    B, H, R, K = x.shape
    pitch = triton.cdiv(K, 8) * 8
    packed = torch.empty((B, H, R, pitch), device=x.device, dtype=x.dtype)
    pack_rows_kernel[(B * H * triton.cdiv(R, 64) * triton.cdiv(pitch, 64),)](
        x, packed, H, R, K, pitch, *x.stride(), ROUND=round_tf32, BLOCK_R=64, BLOCK_K=64, num_warps=8
    )
    return packed
''',
}  # fmt: skip

TILE_NEEDS: dict[str, tuple[str, ...]] = {
    "pack_rows": ("round_to_tf32",),
    "tf32_descriptor": ("tensor_descriptor", "tma_ready"),
}
