"""What kernels for 16-bit operands do in 16 bits, and PyTorch in fp32.

| operation | a kernel | PyTorch |
| --- | --- | --- |
| a product within a reference that casts to fp32, as the second one of attention | reads operands of 16 bits: a tensor core takes no others at that speed | multiplies in fp32 |
| a sum of float16 | adds float16 to float16, pair by pair, as Triton's reductions do | adds in fp32 |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from egg_graph.evaluator.problem.precision import with_reduced_operands


class HalfArithmetic(TorchDispatchMode):
    """While active, PyTorch does these operations as a kernel does.

    Args:
        dtype: of the operands, float16 or bfloat16. Sums of bfloat16 are left: Triton adds them in fp32.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.used = False
        """Whether it has changed any number."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, keywords = func.overloadpacket.__name__, kwargs or {}
        args = with_reduced_operands(name, args, self._rounded)
        if name in ("sum", "mean") and args[0].dtype == self.dtype == torch.float16 and not keywords.get("dtype"):
            self.used = True
            total, count = _sum_by_pairs(args[0], *args[1:3])
            return total / count if name == "mean" else total
        return func(*args, **keywords)

    def _rounded(self, x: torch.Tensor) -> torch.Tensor:
        rounded = x.to(self.dtype).float()
        self.used = self.used or not torch.equal(rounded, x)
        return rounded


def _sum_by_pairs(
    x: torch.Tensor, dims: Sequence[int] | None = None, keepdim: bool = False
) -> tuple[torch.Tensor, int]:
    """The sum over some dimensions, all of them by default, and how many numbers each sum has."""
    places = sorted({d % max(1, x.dim()) for d in dims or range(x.dim())}) if x.dim() else []
    kept = [d for d in range(x.dim()) if d not in places]
    shape = [1 if d in places else x.shape[d] for d in range(x.dim()) if keepdim or d not in places]
    rows = x.permute(*kept, *places).reshape(*(x.shape[d] for d in kept), -1)
    count = rows.shape[-1]
    while rows.shape[-1] > 1:
        rows = torch.nn.functional.pad(rows, (0, rows.shape[-1] % 2))
        half = rows.shape[-1] // 2
        rows = rows[..., :half] + rows[..., half:]
    return rows.sum(-1).reshape(shape), count
