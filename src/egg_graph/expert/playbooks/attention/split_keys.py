"""Attention of a few queries over many keys: the keys are cut into pieces, and heads that share them share a tile."""

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.group import KernelCode, Tuning
from egg_graph.expert.playbooks.attention.match import Attention
from egg_graph.expert.playbooks.attention.writer import AttentionWriter
from egg_graph.expert.playbooks.knobs import half_and_double, multiprocessors, power_of_two

MOST_ROWS = 64
"""Queries of all heads that share their keys, up to which reading the keys is what takes the time."""
FEWEST_KEYS = 256
"""Keys from which on that is so."""

KERNEL = '''@triton.jit
def {name}_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, partial_ptr, statistics_ptr, H_K, GROUP, T_Q, T_K, D, D_V, pieces, width, scale,
    stride_qb, stride_qh, stride_qt, stride_qd, stride_ob, stride_oh, stride_ot, stride_od,
    stride_kb, stride_kh, stride_kt, stride_kd, stride_vb, stride_vh, stride_vt, stride_vd,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr, ONE: tl.constexpr,
):
    """softmax(scale * q k^T) v over one piece of the keys of one head, for all queries of the GROUP heads that share
    it: keys and values are read once. Rows of the tile are heads times queries. Where there is ONE piece, this is the
    answer; else the sums are kept, relative to the largest score, with that score and the sum of the weights."""
    n_rows = GROUP * T_Q
    tiles = tl.cdiv(n_rows, BLOCK_M)
    piece = tl.program_id(0) % pieces
    tile = tl.program_id(0) // pieces % tiles
    shared = tl.program_id(0) // pieces // tiles  # the head of k and v, over all of the batch
    b = (shared // H_K).to(tl.int64)
    kv_head = (shared % H_K).to(tl.int64)
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    h = kv_head * GROUP + rows // T_Q
    t = (rows % T_Q).to(tl.int64)
    d = tl.arange(0, BLOCK_D)
    dv = tl.arange(0, BLOCK_V)
    in_rows = (rows < n_rows)[:, None]
    in_d = (d < D)[None, :]
    in_dv = (dv < D_V)[None, :]
    q_ptrs = q_ptr + b * stride_qb + h[:, None] * stride_qh + t[:, None] * stride_qt + d[None, :] * stride_qd
    q = {q_rounded}
    k_ptrs = k_ptr + b * stride_kb + kv_head * stride_kh + d[None, :] * stride_kd
    v_ptrs = v_ptr + b * stride_vb + kv_head * stride_vh + dv[None, :] * stride_vd
    acc = tl.zeros((BLOCK_M, BLOCK_V), dtype=tl.float32)
    row_sum = tl.zeros((BLOCK_M,), dtype=tl.float32)
    row_max = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    begin = piece * width
    end = tl.minimum(T_K, begin + width)
    whole = begin + (end - begin) // BLOCK_N * BLOCK_N  # blocks before it need no bound
    acc, row_sum, row_max = {name}_attend(
        acc, row_sum, row_max, q, k_ptrs, v_ptrs, begin, whole, rows, T_Q, T_K, in_d, in_dv, scale,
        stride_kt, stride_vt, BLOCK_N, EDGE=False,
    )
    acc, row_sum, row_max = {name}_attend(
        acc, row_sum, row_max, q, k_ptrs, v_ptrs, whole, end, rows, T_Q, T_K, in_d, in_dv, scale,
        stride_kt, stride_vt, BLOCK_N, EDGE=True,
    )

    if ONE:
        out = acc / row_sum[:, None]
        out_ptrs = out_ptr + b * stride_ob + h[:, None] * stride_oh + t[:, None] * stride_ot + dv[None, :] * stride_od
        tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=in_rows & in_dv)
    else:
        place = (shared * pieces + piece).to(tl.int64) * n_rows + rows
        tl.store(partial_ptr + place[:, None] * D_V + dv[None, :], acc, mask=in_rows & in_dv)
        tl.store(statistics_ptr + 2 * place, row_max, mask=rows < n_rows)
        tl.store(statistics_ptr + 2 * place + 1, row_sum, mask=rows < n_rows)
'''

JOIN = '''@triton.jit
def {name}_join_kernel(
    partial_ptr, statistics_ptr, out_ptr, H_K, GROUP, T_Q, D_V, pieces, stride_ob, stride_oh, stride_ot, stride_od,
    LANES: tl.constexpr, BLOCK_V: tl.constexpr,
):
    """One query of one head: the pieces' sums, weighted by how far each one's largest score is below that of all."""
    n_rows = GROUP * T_Q
    row = tl.program_id(0) % n_rows
    shared = tl.program_id(0) // n_rows
    b = (shared // H_K).to(tl.int64)
    h = (shared % H_K).to(tl.int64) * GROUP + row // T_Q
    lanes = tl.arange(0, LANES)
    dv = tl.arange(0, BLOCK_V)
    mask = lanes < pieces
    place = (shared * pieces + lanes).to(tl.int64) * n_rows + row
    top = tl.load(statistics_ptr + 2 * place, mask=mask, other=float("-inf"))
    total = tl.load(statistics_ptr + 2 * place + 1, mask=mask, other=0.0)
    weight = tl.exp2(top - tl.max(top, axis=0))
    acc = tl.load(partial_ptr + place[:, None] * D_V + dv[None, :], mask=mask[:, None] & (dv < D_V)[None, :], other=0.0)
    out = tl.sum(acc * weight[:, None], axis=0) / tl.sum(total * weight, axis=0)
    out_ptrs = out_ptr + b * stride_ob + h * stride_oh + (row % T_Q) * stride_ot + dv * stride_od
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=dv < D_V)
'''

WRAPPER = '''def {name}({arguments}):
    """softmax(scale q k^T) v for q [{lead}T_Q, D], k [{lead}T_K, D], v [{lead}T_K, D_V]; the keys in pieces."""
{prepare}    B, H, T_Q, D = q.shape
    T_K, D_V = v.shape[2], v.shape[3]
    k = k.expand(B, -1, -1, -1)
    v = v.expand(B, -1, -1, -1)
    H_K = k.shape[1]
    group = H // H_K
    out = {allocation}
    block_m, block_n = CONFIG["{name}_BLOCK_M"], CONFIG["{name}_BLOCK_N"]
    block_d = max(16, triton.next_power_of_2(D))
    block_v = max(16, triton.next_power_of_2(D_V))
    width = triton.cdiv(T_K, CONFIG["{name}_PIECES"] * block_n) * block_n
    pieces = triton.cdiv(T_K, width)
    kept = (B * H_K, pieces, group * T_Q) if pieces > 1 else (0, 0, 0)
    partial = torch.empty((*kept, D_V), device=q.device, dtype=torch.float32)
    statistics = torch.empty((*kept, 2), device=q.device, dtype=torch.float32)
    scale = {scale}
    {name}_kernel[(B * H_K * triton.cdiv(group * T_Q, block_m) * pieces,)](
        q, k, v, out, partial, statistics, H_K, group, T_Q, T_K, D, D_V, pieces, width,
        scale * 1.4426950408889634,  # log2(e)
        *q.stride(), *out.stride(), *k.stride(), *v.stride(),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_D=block_d,
        BLOCK_V=block_v,
        ONE=pieces == 1,
        num_warps=CONFIG["{name}_num_warps"],
        num_stages=CONFIG["{name}_num_stages"],
        enable_fp_fusion=False,  # the largest score minus itself is 0, and not what a fused multiply-add leaves of it
    )
    if pieces > 1:
        {name}_join_kernel[(B * H * T_Q,)](
            partial, statistics, out, H_K, group, T_Q, D_V, pieces, *out.stride(),
            LANES=triton.next_power_of_2(pieces), BLOCK_V=block_v,
        )
    return {result}
'''


def has_few_queries(graph: CapturedGraph, found: Attention) -> bool:
    """Return whether reading keys and values takes the time of an attention: few queries, and all keys count."""
    rows, keys = _rows(graph, found), graph[found.v].shape[-2]
    return found.mask is None and not found.causal and rows <= MOST_ROWS and keys >= FEWEST_KEYS


def _rows(graph: CapturedGraph, found: Attention) -> int:
    """Count the queries of all heads that share their keys."""
    q, k = graph[found.q], graph[found.k]
    return q.shape[-2] * (q.shape[1] // k.shape[1] if q.rank == 4 else 1)


class SplitKeysWriter(AttentionWriter):
    """Writes one attention of few queries: the kernel of a piece, and the one that joins the pieces."""

    def code(self) -> KernelCode:
        """Write source, arguments and knobs."""
        found, wrapper = self.found, self._wrapper()
        config, space = self._tuning().prefixed(self.name)
        load_q = "tl.load(q_ptrs, mask=in_rows & in_d, other=0.0)"
        kernel = KERNEL.format(name=self.name, q_rounded=self._rounded(load_q, packed=False))
        return KernelCode(
            function=self.name,
            source="\n\n".join((self._attend(), kernel, JOIN.format(name=self.name), wrapper)),
            tensors=(found.q, found.k, found.v),
            returns=self.group.outputs,
            sizes=tuple(self.sizes),
            config=config,
            space=space,
            helpers=("round_to_tf32",) if self.round_tf32 else (),
            summary="attention of few queries: heads share a tile, the keys are cut into pieces",
        )

    def _wrapper(self) -> str:
        scale = self._scale()
        return WRAPPER.format(
            name=self.name,
            arguments=", ".join(["q", "k", "v", *([self.scale_parameter] if self.scale_parameter else [])]),
            lead="B, H, " if self.rank4 else "B, ",
            prepare=self._prepare(),
            allocation=self._allocation(),
            scale=scale,
            result="out" if self.rank4 else "out.squeeze(1)",
        )

    def _tuning(self) -> Tuning:
        """Begin with as many pieces as give every multiprocessor a program."""
        graph, found = self.graph, self.found
        v, output = graph[found.v], found.output
        head = max(graph[found.q].shape[-1], v.shape[-1])
        wide = 2 if output.dtype == "float32" else 1
        block_m = power_of_two(_rows(graph, found), 16, MOST_ROWS)
        block_n = max(16, min(64, 8192 // (head * wide)))
        programs, pieces = output.shape[0] * (v.shape[1] if self.rank4 else 1), 1
        machine = multiprocessors(self.target)
        while programs * pieces < machine and v.shape[-2] >= 4 * pieces * block_n:
            pieces *= 2
        return Tuning(
            {"BLOCK_M": block_m, "BLOCK_N": block_n, "PIECES": pieces, "num_warps": 4, "num_stages": 2},
            {
                "parallel_mapping": {"num_warps": (2, 4, 8), "PIECES": half_and_double(pieces, 1, 64)},
                "tensor_tiling": {"BLOCK_N": half_and_double(block_n, 16, 128)},
                "memory_optimization": {"num_stages": (2, 3, 4)},
            },
        )
