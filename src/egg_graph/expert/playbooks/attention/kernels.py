"""Templates of attention: keys and values through pointers, or by the tensor memory accelerator (TMA)."""

ATTEND = '''@triton.jit
def {name}_attend(
    acc, row_sum, row_max, q, {keys}, {values}, {mask_ptrs}begin, end, rows, T_Q, T_K, {dims}scale,
    {strides}BLOCK_N: tl.constexpr,{blocks} EDGE: tl.constexpr,
):
    """Attend to keys begin ... end - 1, BLOCK_N at a time, by the online softmax: `acc` and `row_sum` are relative to
    the largest score so far and shrink when it grows. Scores are in log2. EDGE blocks may reach past {limit}."""
    for start in tl.range(begin, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
{load_k}
        scores = tl.dot(q, {k_rounded}{precision}) * scale
{mask}        if EDGE:
            counts = (keys < T_K)[None, :]{causal}
            scores = tl.where(counts, scores, float("-inf"))
        new_max = tl.maximum(row_max, tl.max(scores, 1))
{base}        p = tl.exp2(scores - {base_name}[:, None])
        shrink = tl.exp2(row_max - {base_name})
        row_sum = row_sum * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
{load_v}
        acc = tl.dot({p_rounded}, {v_rounded}, acc{precision})
        row_max = new_max
    return acc, row_sum, row_max
'''

KERNEL = '''@triton.jit
def {name}_kernel(
    q_ptr, {key_arg}, {value_arg}, {mask_arg}out_ptr, H, GROUP, T_Q, T_K, D, D_V, scale,
    stride_qb, stride_qh, stride_qt, stride_qd, stride_ob, stride_oh, stride_ot, stride_od,{kv_strides}
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr,
):
    """out = softmax(scale * q k^T{mask_words}) v: one program for BLOCK_M queries of one head.

    No score leaves the chip. GROUP heads of q share one head of k and v. D and D_V are padded to powers of two.
    """
    tiles = tl.cdiv(T_Q, BLOCK_M)
    tile = {tile}
    b = (tl.program_id(0) // tiles // H).to(tl.int64)
    h = (tl.program_id(0) // tiles % H).to(tl.int64)
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, BLOCK_D)
    dv = tl.arange(0, BLOCK_V)
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows.to(tl.int64)[:, None] * stride_qt + d[None, :] * stride_qd
    q = {q_rounded}
{heads}
    acc = tl.zeros((BLOCK_M, BLOCK_V), dtype=tl.float32)
    row_sum = tl.zeros((BLOCK_M,), dtype=tl.float32)
    row_max = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
{bounds}
    acc, row_sum, row_max = {name}_attend(
        acc, row_sum, row_max, q, {attend_args}, 0, whole, rows, T_Q, T_K, {dims}scale,
        {attend_strides}BLOCK_N,{attend_blocks} EDGE=False,
    )
    acc, row_sum, row_max = {name}_attend(
        acc, row_sum, row_max, q, {attend_args}, whole, end, rows, T_Q, T_K, {dims}scale,
        {attend_strides}BLOCK_N,{attend_blocks} EDGE=True,
    )

{normalize}
    out_ptrs = out_ptr + b * stride_ob + h * stride_oh
    out_ptrs += rows.to(tl.int64)[:, None] * stride_ot + dv[None, :] * stride_od
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=(rows < T_Q)[:, None] & (dv < D_V)[None, :])
'''

FULL_BOUNDS = """    end = T_K
    whole = T_K // BLOCK_N * BLOCK_N  # blocks before it need no bound"""

CAUSAL_BOUNDS = """    # Queries of this tile see keys up to their own position: blocks left of the diagonal are whole.
    end = tl.minimum(T_K, (tile + 1) * BLOCK_M)
    whole = tl.minimum(T_K, tile * BLOCK_M) // BLOCK_N * BLOCK_N"""

POINTER_K = """        if EDGE:
            k = tl.load(k_ptrs + keys.to(tl.int64)[:, None] * stride_kt, mask=(keys < T_K)[:, None] & in_d, other=0.0)
        else:
            k = tl.load(k_ptrs + keys.to(tl.int64)[:, None] * stride_kt, mask=in_d, other=0.0)"""

POINTER_V = """        if EDGE:
            v = tl.load(v_ptrs + keys.to(tl.int64)[:, None] * stride_vt, mask=(keys < T_K)[:, None] & in_dv, other=0.0)
        else:
            v = tl.load(v_ptrs + keys.to(tl.int64)[:, None] * stride_vt, mask=in_dv, other=0.0)"""

POINTER_HEADS = """    in_d = (d < D)[None, :]
    in_dv = (dv < D_V)[None, :]
    k_ptrs = k_ptr + b * stride_kb + (h // GROUP) * stride_kh + d[None, :] * stride_kd
    v_ptrs = v_ptr + b * stride_vb + (h // GROUP) * stride_vh + dv[None, :] * stride_vd"""

TMA_HEADS = """    batch = b.to(tl.int32)
    kv_head = (h // GROUP).to(tl.int32)"""

TMA_K = """        k = k_desc.load([batch, kv_head, start, 0]).reshape(BLOCK_N, BLOCK_D)"""
TMA_V = """        v = v_desc.load([batch, kv_head, start, 0]).reshape(BLOCK_N, BLOCK_V)"""
TMA_V_TRANSPOSED = """        v = v_desc.load([batch, kv_head, 0, start]).reshape(BLOCK_V, BLOCK_N).T"""

INSIDE = """        inside = (rows < T_Q)[:, None] & (keys < T_K)[None, :]
"""
MASKS = {
    "none": "",
    "allowed": INSIDE
    + """        allowed = tl.load(mask_ptrs + keys[None, :] * stride_mk, mask=inside, other=0)
        scores = tl.where(allowed, scores, float("-inf"))
""",
    "filled": INSIDE
    + """        filled = tl.load(mask_ptrs + keys[None, :] * stride_mk, mask=inside, other=0)
        scores = tl.where(filled, {fill}, scores)
""",
    "added": INSIDE
    + """        added = tl.load(mask_ptrs + keys[None, :] * stride_mk, mask=inside, other=0.0).to(tl.float32)
        scores += added * 1.4426950408889634  # log2(e)
""",
}
BASE = """        base = tl.where(new_max == float("-inf"), 0.0, new_max)  # a row that has seen no key yet
"""
MASK_POINTERS = """    mask_ptrs = mask_ptr + b * stride_mb + h * stride_mh + rows.to(tl.int64)[:, None] * stride_mt
"""

WRAPPER = '''def {name}({arguments}):
    """softmax({formula}) v for q [{lead}T_Q, D], k [{lead}T_K, D], v [{lead}T_K, D_V]."""
{prepare}    B, H, T_Q, D = q.shape
    T_K, D_V = v.shape[2], v.shape[3]
    k = k.expand(B, -1, -1, -1)
    v = v.expand(B, -1, -1, -1)
    group = H // k.shape[1]
{mask}    out = {allocation}
    block_n = CONFIG["{name}_BLOCK_N"]
    block_d = max(16, triton.next_power_of_2(D))
    block_v = max(16, triton.next_power_of_2(D_V))
{operands}    scale = {scale}
    {name}_kernel[(B * H * triton.cdiv(T_Q, CONFIG["{name}_BLOCK_M"]),)](
        q, {kv_args}, {mask_arg}out, H, group, T_Q, T_K, D, D_V, scale * 1.4426950408889634,  # log2(e)
        *q.stride(), *out.stride(),{stride_args}
        BLOCK_M=CONFIG["{name}_BLOCK_M"],
        BLOCK_N=block_n,
        BLOCK_D=block_d,
        BLOCK_V=block_v,
        num_warps=CONFIG["{name}_num_warps"],
        num_stages=CONFIG["{name}_num_stages"],
        enable_fp_fusion=False,  # the largest score minus itself is 0, and not what a fused multiply-add leaves of it
    )
    return {result}
'''
