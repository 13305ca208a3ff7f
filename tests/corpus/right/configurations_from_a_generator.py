# /// trick
# id = "right-98"
# name = "configurations that a generator prunes"
# problem = "column_sum"
# expect = ["right"]
# ///
"""Right: the function that prunes is a generator, which can be gone through once."""

import torch
import triton
import triton.language as tl
from torch import nn


def fitting(configs, named_args, **keywords):
    yield from (c for c in configs if c.kwargs["BN"] <= max(32, named_args["columns"]))


@triton.autotune(
    configs=[triton.Config({"BM": m, "BN": n}, num_warps=w) for m, n, w in ((64, 64, 4), (32, 32, 2), (128, 32, 8))],
    key=["rows", "columns"],
    reset_to_zero=["y"],
    prune_configs_by={"early_config_prune": fitting},
)
@triton.jit
def k(x, y, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    v = tl.load(
        x + row[:, None] * columns + column[None, :],
        mask=(row[:, None] < rows) & (column[None, :] < columns),
        other=0.0,
    )
    tl.atomic_add(y + column, tl.sum(v, 0), mask=column < columns, sem="relaxed")


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.zeros(columns, device=x.device, dtype=x.dtype)
        k[lambda meta: (triton.cdiv(rows, meta["BM"]), triton.cdiv(columns, meta["BN"]))](x, y, rows, columns)
        return y
