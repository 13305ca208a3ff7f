"""A matrix times one vector: memory-bound, so the sums are made in fp32 without tensor cores.

A long sum of products of one sign is biased on a tensor core, whose additions truncate: with 65,536 summands a program
it was beyond the error budget of TF32 on an H200.
"""

from egg_graph.expert.playbooks.gemm.spec import GemmSpec, assemble
from egg_graph.expert.playbooks.gemm.split_k import write_sum, write_sum_launch

KERNEL = '''@triton.jit
def {name}_kernel(
    a_ptr, b_ptr, parts_ptr, M, K, stride_am, stride_ak, stride_bk,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):
    """parts[s, m] = the share s of sum over k of a[m, k] * b[k]: every SPLIT_K-th block of BLOCK_K."""
    share = tl.program_id(0) % SPLIT_K
    rows = (tl.program_id(0) // SPLIT_K) * BLOCK_M + tl.arange(0, BLOCK_M)
    ks = tl.arange(0, BLOCK_K)
    in_rows = (rows < M)[:, None]
    a_rows = a_ptr + rows.to(tl.int64)[:, None] * stride_am

    acc = tl.zeros((BLOCK_M, BLOCK_K), dtype=tl.float32)
    for start in range(share * BLOCK_K, K, SPLIT_K * BLOCK_K):
        k = (start + ks)[None, :]
        b = tl.load(b_ptr + k.to(tl.int64) * stride_bk, mask=k < K, other=0.0).to(tl.float32)
        acc += tl.load(a_rows + k.to(tl.int64) * stride_ak, mask=in_rows & (k < K), other=0.0).to(tl.float32) * b
    tl.store(parts_ptr + share * M + rows, tl.sum(acc, axis=1), mask=rows < M)
'''

LAUNCH = """    split_k = {split_k}
    parts = torch.empty((split_k, M), device=a.device, dtype=torch.float32)
    {name}_kernel[(triton.cdiv(M, {block_m}) * split_k,)](
        a, b, parts, M, K, a.stride(0), a.stride(1), b.stride(0),
{options}
    )
"""


def write_vector(spec: GemmSpec) -> str:
    """Write both kernels and the wrapper."""
    launch = LAUNCH.format(
        name=spec.name,
        split_k=spec.knob("SPLIT_K"),
        block_m=spec.knob("BLOCK_M"),
        options=spec.launch_options("BLOCK_M", "BLOCK_K", "SPLIT_K", "num_warps"),
    )
    kernel = KERNEL.format(name=spec.name)
    return assemble(
        spec.epilogue.source, kernel, write_sum(spec), spec.wrapper_head() + launch + write_sum_launch(spec, 64, 1)
    )
