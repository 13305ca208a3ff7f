"""Device and host functions that generated kernels share, as source text. A module holds those that it calls.

Triton has no tanh, expm1 or log1p. These are accurate to a few units in the last place of fp32 over the whole range,
and they call no library function that an interpreter would have to imitate.
"""

import inspect

from egg_graph.expert.capture.averaged_axis import averaged_axis
from egg_graph.expert.codegen.phases import phases_by_program, reached_inputs

HELPERS: dict[str, str] = {
    "averaged_axis": inspect.getsource(averaged_axis),
    "byte_to_float": '''@triton.jit
def byte_to_float(x):
    """A byte as fp32, by its bits: below the exponent of 2^23 they count ones. Conversions are four times slower."""
    return (x.to(tl.int32) | 0x4B000000).to(tl.float32, bitcast=True) - 8388608.0
''',
    "tanh": '''@triton.jit
def tanh(x):
    """(1 - e) / (1 + e) with e = exp(-2 |x|), which never overflows; a series near 0, where 1 - e would cancel."""
    e = tl.exp2(-2.8853900817779268 * tl.abs(x))
    far = (1.0 - e) / (1.0 + e)
    s = x * x
    near = x * (1.0 + s * (-0.33333333 + s * (0.13333333 + s * (-0.053968254 + s * 0.021869488))))
    return tl.where(tl.abs(x) < 0.25, near, tl.where(x < 0, -far, far))
''',
    "expm1": '''@triton.jit
def expm1(x):
    """exp(x) - 1; a series near 0, where the subtraction would cancel."""
    near = x * (1.0 + x * (0.5 + x * (0.16666667 + x * (0.041666667 + x * (0.0083333333 + x * 0.0013888889)))))
    return tl.where(tl.abs(x) < 0.25, near, tl.exp(x) - 1.0)
''',
    "log1p": '''@triton.jit
def log1p(x):
    """log(1 + x), corrected by what rounding 1 + x lost (Kahan)."""
    w = 1.0 + x
    d = w - 1.0
    return tl.where(d == 0.0, x, tl.log(w) * (x / tl.where(d == 0.0, 1.0, d)))
''',
    "softplus": '''@triton.jit
def softplus(x):
    """log(1 + exp(x)) = max(x, 0) + log(1 + e), e = exp(-|x|), which never overflows. With s = e / (e + 2) <= 1/3 the
    logarithm is 2 atanh(s): s times a polynomial in s^2, fitted to 4e-9."""
    e = tl.exp(-tl.abs(x))
    s = e / (e + 2.0)
    q = s * s
    log = s * (2.0 + q * (0.66666314 + q * (0.40024915 + q * (0.27960578 + q * 0.28178312))))
    return tl.where(x < 0, 0.0, x) + log
''',
    "gelu": '''@triton.jit
def gelu(x):
    """x Phi(x) = max(x, 0) - z Phi(-z), z = |x|. Phi(-z) is exp(-z^2 / 2) times a polynomial in t = 1 / (1 + 0.28 z),
    fitted to 4e-8 of Phi(-z) + 0.05: closer than 1 + erf, which cancels, and half of its instructions."""
    z = tl.abs(x)
    t = 1.0 / (1.0 + 0.28 * z)
    p = t * (0.11695420 + t * (0.064806033 + t * (0.27554378 + t * (-0.24511411 + t * (0.39481159 - t * 0.10700151)))))
    below = z * (p * tl.exp2(z * z * -0.72134752))
    return tl.where(x > 6.0, x, tl.where(x < 0, 0.0, x) - below)
''',
    "gelu_tanh": '''@triton.jit
def gelu_tanh(x):
    """0.5 x (1 + tanh(u)) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    u = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return x * tl.sigmoid(2.0 * u)
''',
    "mish": '''@triton.jit
def mish(x):
    """x tanh(log(1 + e)) = x n / (n + 2), e = exp(x), n = e (e + 2); the ratio is 1 in fp32 from x = 20 on."""
    e = tl.exp(tl.where(x < 20.0, x, 20.0))
    n = e * (e + 2.0)
    return tl.where(x < 20.0, x * (n / (n + 2.0)), x)
''',
    "round_to_tf32": '''@triton.jit
def round_to_tf32(x):
    """Round fp32 to TF32, to nearest. A tensor core alone would truncate, which biases every product."""
    return tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)
''',
    "propagate_max": '''@triton.jit
def propagate_max(a, b):
    """The larger, NaN where either is: PyTorch's maximum."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "propagate_min": '''@triton.jit
def propagate_min(a, b):
    """The smaller, NaN where either is: PyTorch's minimum."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "finite_or": '''@triton.jit
def finite_or(x, other):
    """x, or `other` where x is infinite."""
    return tl.where(tl.abs(x) == float("inf"), other, x)
''',
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
    "phase_numbers": '''from math import gcd


def phase_numbers(stride, dilation):
    """g = gcd(stride, dilation), and the inverse of dilation / g modulo stride / g. Output positions of residue r
    modulo a transposed convolution's stride get the taps t with t * dilation = r + padding modulo the stride only."""
    g = gcd(stride, dilation)
    return g, pow(dilation // g, -1, stride // g)
''',
    "kept_copy": '''def kept_copy(kept, layer, weight, pack, *options):
    """pack(weight, *options), made anew whenever the weight or an option has changed. `kept` belongs to one module. It
    holds the weight beside its copy, so that no other tensor comes to lie where this one does."""
    if weight.is_inference():  # then nothing counts its changes
        return pack(weight, *options)
    source = (weight.data_ptr(), weight._version, weight.shape, weight.stride(), weight.dtype, weight.device, options)
    if layer not in kept or kept[layer][0] != source:
        kept[layer] = source, weight.detach(), pack(weight, *options)
    return kept[layer][2]
''',
    "pack_filter": '''@triton.jit
def pack_filter_kernel(
    w_ptr, packed_ptr, C, N, ROWS, WIDTH, total, stride_g, stride_n, stride_c,
    TAPS: tl.constexpr, ROUND: tl.constexpr, BLOCK: tl.constexpr,
):
    """packed[g, n, tap, c] = w[g, n, c, tap] from any strides, zeros beyond N and C; rounded to TF32 under ROUND."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = i % WIDTH
    tap = i // WIDTH % TAPS
    n = i // (WIDTH * TAPS) % ROWS
    g = i // (WIDTH * TAPS * ROWS)
    real = (i < total) & (c < C) & (n < N)
    w = tl.load(w_ptr + g * stride_g + n * stride_n + c * stride_c + tap, mask=real, other=0.0)
    if ROUND:
        w = round_to_tf32(w)
    tl.store(packed_ptr + i, w, mask=i < total)


def pack_filter(weight, groups, transposed, block_n, block_k, round_tf32):
    """A copy of a convolution's weight [N, C, *taps] ([C, N, *taps] where transposed) as tiles of a product: for each
    group rows of output channels, in each row taps, in each tap input channels; filled with zeros to whole blocks."""
    taps = weight[0, 0].numel()
    rows, width = weight.shape[0] // groups, weight.shape[1]
    N, C = (width, rows) if transposed else (rows, width)
    stride_n, stride_c = (taps, width * taps) if transposed else (width * taps, taps)
    shape = (groups, triton.cdiv(N, block_n) * block_n, taps, triton.cdiv(C, block_k) * block_k)
    packed = torch.empty(shape, device=weight.device, dtype=weight.dtype)
    pack_filter_kernel[(triton.cdiv(packed.numel(), 1024),)](
        weight, packed, C, N, shape[1], shape[3], packed.numel(), rows * width * taps, stride_n, stride_c,
        TAPS=taps, ROUND=round_tf32, BLOCK=1024, num_warps=4,
    )
    return packed
''',
    "channels_last": '''@triton.jit
def channels_last_kernel(
    x_ptr, y_ptr, C, PIXELS, ROUND: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr,
):
    """y[b, p, c] = x[b, c, p], rounded to TF32 under ROUND."""
    blocks_p = tl.cdiv(PIXELS, BLOCK_P)
    blocks = blocks_p * tl.cdiv(C, BLOCK_C)
    sample = (tl.program_id(0) // blocks).to(tl.int64)
    block = tl.program_id(0) % blocks
    p = (block % blocks_p) * BLOCK_P + tl.arange(0, BLOCK_P)
    c = (block // blocks_p) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = (c < C)[:, None] & (p < PIXELS)[None, :]
    x = tl.load(x_ptr + sample * C * PIXELS + c[:, None] * PIXELS + p[None, :], mask=inside, other=0.0)
    if ROUND:
        x = round_to_tf32(x)
    tl.store(y_ptr + sample * C * PIXELS + p[:, None] * C + c[None, :], tl.trans(x), mask=tl.trans(inside))


def channels_last(x, round_tf32):
    """A copy of x [B, C, *pixels] as [B, *pixels, C], rounded to TF32 here once instead of at every use."""
    channels, pixels = x.shape[1], x[0, 0].numel()
    y = torch.empty((x.shape[0], pixels, channels), device=x.device, dtype=x.dtype)
    blocks = triton.cdiv(pixels, 64) * triton.cdiv(channels, 64)
    channels_last_kernel[(x.shape[0] * blocks,)](
        x, y, channels, pixels, ROUND=round_tf32, BLOCK_C=64, BLOCK_P=64, num_warps=8
    )
    return y
''',
    "padded_channels_last": '''@triton.jit
def padded_channels_last_kernel(
    x_ptr, y_ptr, C, IN_0: tl.constexpr, IN_1: tl.constexpr, IN_2: tl.constexpr, P_0: tl.constexpr, P_1: tl.constexpr,
    P_2: tl.constexpr, SIZE_0: tl.constexpr, SIZE_1: tl.constexpr, SIZE_2: tl.constexpr, WIDTH: tl.constexpr,
    ROUND: tl.constexpr, BLOCK: tl.constexpr,
):
    """y[plane, p, c] = x[plane, c, p less the padding], rounded to TF32 under ROUND; zero in the padding, beyond C."""
    SIZE: tl.constexpr = SIZE_0 * SIZE_1 * SIZE_2
    PIXELS: tl.constexpr = IN_0 * IN_1 * IN_2
    blocks: tl.constexpr = (SIZE + BLOCK - 1) // BLOCK
    plane = (tl.program_id(0) // blocks).to(tl.int64)
    p = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, WIDTH)
    inside = p < SIZE
    real, pixel = inside, p
    if SIZE > PIXELS:
        i_0 = p // (SIZE_1 * SIZE_2) - P_0
        i_1 = p // SIZE_2 % SIZE_1 - P_1
        i_2 = p % SIZE_2 - P_2
        real = inside & (i_0 >= 0) & (i_0 < IN_0) & (i_1 >= 0) & (i_1 < IN_1) & (i_2 >= 0) & (i_2 < IN_2)
        pixel = (i_0 * IN_1 + i_1) * IN_2 + i_2
    places = plane * C * PIXELS + (pixel[:, None] + (c * PIXELS)[None, :])
    x = tl.load(x_ptr + places, mask=real[:, None] & (c < C)[None, :], other=0.0)
    if ROUND:
        x = round_to_tf32(x)
    tl.store(y_ptr + plane * (SIZE * WIDTH) + (p[:, None] * WIDTH + c[None, :]), x, mask=inside[:, None])


def padded_channels_last(x, groups, width, padding, sizes, round_tf32):
    """A copy of x [B, groups * C, *pixels] as [B, groups, *sizes, width], zeros in the padding and beyond x and C,
    rounded to TF32 here once instead of at every use."""
    in_0, in_1, in_2 = (1, 1, *x.shape[2:])[-3:]
    p_0, p_1, p_2 = (0, 0, *padding)[-3:]
    size_0, size_1, size_2 = (1, 1, *sizes)[-3:]
    pixels, block = size_0 * size_1 * size_2, 4096 // width
    y = torch.empty((x.shape[0], groups, pixels, width), device=x.device, dtype=x.dtype)
    padded_channels_last_kernel[(x.shape[0] * groups * triton.cdiv(pixels, block),)](
        x, y, x.shape[1] // groups, IN_0=in_0, IN_1=in_1, IN_2=in_2, P_0=p_0, P_1=p_1, P_2=p_2,
        SIZE_0=size_0, SIZE_1=size_1, SIZE_2=size_2, WIDTH=width, ROUND=round_tf32, BLOCK=block, num_warps=4,
    )
    return y
''',
    "pack_band": '''@triton.jit
def pack_band_kernel(
    w_ptr, packed_ptr, C, N, ROWS, REACH, UNIT, S, D, T, total, LEADING: tl.constexpr, RUN: tl.constexpr,
    WIDTH: tl.constexpr, ROUND: tl.constexpr, BLOCK: tl.constexpr,
):
    """packed[g, n, run, leading taps, u, c] = w[g, n, c, leading taps, t] where t D = u UNIT - run S, else zero."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = i % WIDTH
    u = i // WIDTH % REACH
    leading = i // (WIDTH * REACH) % LEADING
    run = i // (WIDTH * REACH * LEADING) % RUN
    n = i // (WIDTH * REACH * LEADING * RUN) % ROWS
    g = i // (WIDTH * REACH * LEADING * RUN * ROWS)
    shift = u * UNIT - run * S
    t = shift // D
    real = (i < total) & (c < C) & (n < N) & (shift >= 0) & (shift % D == 0) & (t < T)
    w = tl.load(w_ptr + (((g * N + n) * C + c) * LEADING + leading) * T + t, mask=real, other=0.0)
    if ROUND:
        w = round_to_tf32(w)
    tl.store(packed_ptr + i, w, mask=i < total)


def pack_band(weight, groups, block_n, width, run, reach, unit, stride, dilation, round_tf32):
    """A copy of a convolution's weight [groups * N, C, *taps] as columns of a product, for each channel `run` of them,
    each the filter shifted by one more stride along the last dimension; filled with zeros to whole blocks."""
    N, C, taps = weight.shape[0] // groups, weight.shape[1], weight.shape[-1]
    rows, leading = triton.cdiv(N, block_n) * block_n, weight[0, 0].numel() // taps
    packed = torch.empty((groups, rows, run, leading, reach, width), device=weight.device, dtype=weight.dtype)
    pack_band_kernel[(triton.cdiv(packed.numel(), 1024),)](
        weight, packed, C, N, rows, reach, unit, stride, dilation, taps, packed.numel(), LEADING=leading, RUN=run,
        WIDTH=width, ROUND=round_tf32, BLOCK=1024, num_warps=4,
    )
    return packed
''',
    "pack_phases": '''@triton.jit
def pack_phases_kernel(
    w_ptr, packed_ptr, C, N, GROUPS, BLOCKS, BLOCK_N, total, O_0, O_1, O_2, J_0, J_1, J_2, T_0, T_1, T_2,
    S_0, S_1, S_2, P_0, P_1, P_2, D_0, D_1, D_2, LOW_0, LOW_1, LOW_2, REACH_0, REACH_1, REACH_2,
    WIDTH: tl.constexpr, ROUND: tl.constexpr, BLOCK: tl.constexpr,
):
    """packed[o, g, block, j, n, u, c] = w[g, c, block, n, t] where t D = o + j + P - S (LOW + u) along each dimension,
    else zero."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = i % WIDTH
    u = i // WIDTH
    n = u // (REACH_0 * REACH_1 * REACH_2)
    j = n // BLOCK_N
    block = j // (J_0 * J_1 * J_2)
    g = block // BLOCKS
    o = g // GROUPS
    n = block % BLOCKS * BLOCK_N + n % BLOCK_N
    phase_0 = o // (O_1 * O_2) + j // (J_1 * J_2) % J_0
    phase_1 = o // O_2 % O_1 + j // J_2 % J_1
    phase_2 = o % O_2 + j % J_2
    from_0 = phase_0 + P_0 - S_0 * (LOW_0 + u // (REACH_1 * REACH_2) % REACH_0)
    from_1 = phase_1 + P_1 - S_1 * (LOW_1 + u // REACH_2 % REACH_1)
    from_2 = phase_2 + P_2 - S_2 * (LOW_2 + u % REACH_2)
    real = (i < total) & (c < C) & (n < N) & (phase_0 < S_0) & (phase_1 < S_1) & (phase_2 < S_2)
    real = real & (from_0 >= 0) & (from_0 % D_0 == 0) & (from_0 // D_0 < T_0)
    real = real & (from_1 >= 0) & (from_1 % D_1 == 0) & (from_1 // D_1 < T_1)
    real = real & (from_2 >= 0) & (from_2 % D_2 == 0) & (from_2 // D_2 < T_2)
    tap = (from_0 // D_0 * T_1 + from_1 // D_1) * T_2 + from_2 // D_2
    w = tl.load(w_ptr + ((g % GROUPS * C + c) * N + n) * (T_0 * T_1 * T_2) + tap, mask=real, other=0.0)
    if ROUND:
        w = round_to_tf32(w)
    tl.store(packed_ptr + i, w, mask=i < total)


def pack_phases(weight, groups, block_n, width, apart, joined, stride, padding, dilation, low, reach, round_tf32):
    """A copy of a transposed convolution's weight [groups * C, N, *taps] as columns of products: for each residue
    modulo the stride block_n channels, each with its taps where they meet `reach` inputs from `low` on, and zeros
    elsewhere. Residues of the dimensions in `joined` are columns of one product, those of the others have one each."""
    (all_channels, N), ones = weight.shape[:2], (1, 1)
    vectors = (apart, joined, weight.shape[2:], stride, dilation, reach)
    apart, joined, taps, stride, dilation, reach = ((*ones, *n)[-3:] for n in vectors)
    padding, low = ((0, 0, *n)[-3:] for n in (padding, low))
    blocks = triton.cdiv(N, block_n)
    columns = (*apart, groups, blocks, *joined, block_n)
    packed = torch.empty((*columns, *reach, width), device=weight.device, dtype=weight.dtype)
    pack_phases_kernel[(triton.cdiv(packed.numel(), 1024),)](
        weight, packed, all_channels // groups, N, groups, blocks, block_n, packed.numel(), *apart, *joined, *taps,
        *stride, *padding, *dilation, *low, *reach, WIDTH=width, ROUND=round_tf32, BLOCK=1024, num_warps=4,
    )
    return packed
''',
    "reached_inputs": inspect.getsource(reached_inputs),
    "phases_by_program": "from math import prod\n\n\n" + inspect.getsource(phases_by_program),
    "join_sums": '''@triton.jit
def join_sums_kernel(parts_ptr, total_ptr, n_parts, scale, BLOCK: tl.constexpr):
    """total[row] = scale * the sum of parts[row, :]."""
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_parts, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(parts_ptr + row * n_parts + i, mask=i < n_parts, other=0.0)
    tl.store(total_ptr + row, (tl.sum(total, axis=0) * scale).to(total_ptr.dtype.element_ty))


def join_sums(parts, scale, dtype):
    """Sums of the rows of parts, times a number, in fixed order."""
    total = torch.empty(parts.shape[:1], device=parts.device, dtype=dtype)
    join_sums_kernel[(parts.shape[0],)](parts, total, parts.shape[1], scale, BLOCK=512, num_warps=4)
    return total
''',
    "join_moments": '''@triton.jit
def join_moments_kernel(parts_ptr, mean_ptr, var_ptr, n_parts, degrees, BLOCK: tl.constexpr):
    """Mean and variance of each row from its parts: sum, squared deviations from the part's own mean, count."""
    row = tl.program_id(0).to(tl.int64)
    total, count = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_parts, BLOCK):
        i = start + tl.arange(0, BLOCK)
        place = parts_ptr + (row * n_parts + i) * 3
        total += tl.load(place, mask=i < n_parts, other=0.0)
        count += tl.load(place + 2, mask=i < n_parts, other=0.0)
    mean = tl.sum(total, axis=0) / tl.sum(count, axis=0)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_parts, BLOCK):
        i = start + tl.arange(0, BLOCK)
        place = parts_ptr + (row * n_parts + i) * 3
        part = tl.load(place, mask=i < n_parts, other=0.0)
        number = tl.load(place + 2, mask=i < n_parts, other=1.0)
        apart = tl.where(i < n_parts, part / number - mean, 0.0)
        squares += tl.load(place + 1, mask=i < n_parts, other=0.0) + number * apart * apart
    tl.store(mean_ptr + row, mean.to(mean_ptr.dtype.element_ty))
    tl.store(var_ptr + row, (tl.sum(squares, axis=0) / degrees).to(var_ptr.dtype.element_ty))


def join_moments(parts, degrees, dtype):
    """Mean and variance of each row, from what its tiles [rows, tiles, 3] left."""
    mean = torch.empty(parts.shape[:1], device=parts.device, dtype=dtype)
    var = torch.empty_like(mean)
    join_moments_kernel[(parts.shape[0],)](parts, mean, var, parts.shape[1], degrees, BLOCK=512, num_warps=4)
    return mean, var
''',
    "moments_of": '''def moments_of(x, by_sample):
    """Count, mean, zero and squared deviations of every channel, of each sample or of all: [outer, channels, 1, 4]."""
    dims = [d for d in range(x.dim()) if d > 1 or (d == 0 and not by_sample)]
    var, mean = torch.var_mean(x.float(), dims, correction=0)
    count = torch.full_like(mean, x.numel() // mean.numel())
    return torch.stack([count, mean, torch.zeros_like(mean), var * count], -1).view(-1, x.shape[1], 1, 4)
''',
    "joined_moments": '''def joined_moments(parts, groups, correction):
    """Mean, or variance where a correction is given, from the moments of parts [outer, channels, parts, 4]: of every
    channel, or of every group of each sample's channels where there are groups."""
    rows = parts.reshape(parts.shape[0], groups, -1, 4) if groups else parts.transpose(0, 1).flatten(1, 2)
    count, mean, rest, squares = rows.unbind(-1)
    total, mean = count.sum(-1, keepdim=True), mean + rest
    middle = (count * mean).sum(-1, keepdim=True) / total
    if correction is None:
        return middle
    return (squares + count * (mean - middle) ** 2).sum(-1, keepdim=True) / (total - correction)
''',
}  # fmt: skip
"""Source by name; a module holds its helpers in this order."""

NEEDS: dict[str, tuple[str, ...]] = {
    "pack_rows": ("round_to_tf32",),
    "pack_filter": ("round_to_tf32",),
    "channels_last": ("round_to_tf32",),
    "padded_channels_last": ("round_to_tf32",),
    "pack_band": ("round_to_tf32",),
    "pack_phases": ("round_to_tf32",),
    "tf32_descriptor": ("tensor_descriptor", "tma_ready"),
}
"""Helper -> the helpers that it calls."""


def helper_source(names: set[str]) -> str:
    """Return the source of these helpers and of those they call, callees first."""
    wanted = set(names)
    for name in names:
        wanted.update(NEEDS.get(name, ()))
    ordered = sorted(wanted, key=lambda name: (bool(NEEDS.get(name)), list(HELPERS).index(name)))
    return "\n\n".join(HELPERS[name] for name in ordered)
