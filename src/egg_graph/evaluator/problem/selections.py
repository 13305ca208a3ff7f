"""Indices that the reference selects by value: among values that rounding makes equal, several indices are right.

`topk`, `sort`, `max` and `min` along a dimension do not promise which of equal values they name. Where the reference's
answer is such an index itself, a candidate's is right if it names a value equal to the one that PyTorch's names, and,
where several are named along one dimension, no element twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from egg_graph.schema import Precision

DIMENSIONS = {"topk": (2, -1), "sort": (1, -1), "max": (1, None), "min": (1, None)}
"""Operators that answer with values and their indices -> place of `dim` among the arguments, and its default."""
MOST_ELEMENTS = 1 << 22
"""The values of a larger selection are not kept; its indices have to be PyTorch's."""
MARGIN: dict[Precision, float] = {"ieee": 16.0, "tf32": 4.0, "tf32_truncated": 16.0, "bf16": 4.0, "fp16": 4.0}
"""Values are equal that differ by this many times the largest rounding error of any: twice what one kernel's may be."""


@dataclass(frozen=True)
class Selection:
    """Where the indices of one leaf come from."""

    values: torch.Tensor
    """What was selected from."""
    dim: int
    """Along which dimension."""
    several: bool
    """Whether the indices along that dimension are those of different elements."""
    equal_within: float = 0.0
    """Values that differ by no more than this are equal."""

    def equally_right(self, got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        """Mask of the indices that name a value equal to the one that the expected index names.

        Args:
            got: integers of the shape of `expected`.
            expected: PyTorch's indices.
        """
        if not self.several and got.dim() < self.values.dim():
            return self.equally_right(got.unsqueeze(self.dim), expected.unsqueeze(self.dim)).squeeze(self.dim)
        count = self.values.shape[self.dim]
        inside = (got >= 0) & (got < count)
        index = got.long().clamp(0, count - 1)
        chosen, due = self.values.gather(self.dim, index), self.values.gather(self.dim, expected.long())
        equal = (chosen == due) | ((chosen - due).abs() <= self.equal_within)
        return inside & equal & ~self._named_twice(index)

    def _named_twice(self, index: torch.Tensor) -> torch.Tensor:
        """Mask of the indices that occur more than once along the dimension."""
        if not self.several:
            return torch.zeros_like(index, dtype=torch.bool)
        shape = (*index.shape[: self.dim], self.values.shape[self.dim], *index.shape[self.dim + 1 :])
        named = torch.zeros(shape, dtype=index.dtype, device=index.device)
        named.scatter_add_(self.dim, index, torch.ones_like(index))
        return named.gather(self.dim, index) > 1


class Selections(TorchDispatchMode):
    """While active, records what indices were selected from."""

    def __init__(self) -> None:
        super().__init__()
        self._found: list[tuple[torch.Tensor, int, Selection, int]] = []
        """Indices and their version, the selection, and the version of its values."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in DIMENSIONS and isinstance(answer, tuple | list) and len(answer) == 2:
            self._record(name, answer[1], args, kwargs or {})
        return answer

    def _record(self, name: str, indices: torch.Tensor, args: Any, kwargs: Any) -> None:
        place, default = DIMENSIONS[name]
        dim = kwargs.get("dim", args[place] if len(args) > place else default)
        if kwargs.get("stable") or not isinstance(dim, int):
            return
        x = args[0]
        if x.dim() and x.is_floating_point() and x.numel() <= MOST_ELEMENTS:
            found = Selection(x, dim % x.dim(), several=name in ("topk", "sort"))
            self._found.append((indices, indices._version, found, x._version))

    def of(self, leaf: torch.Tensor) -> Selection | None:
        """The selection whose indices a leaf is; None if it is none, or something has changed since."""
        for indices, version, found, before in self._found if leaf.layout is torch.strided else ():
            same = leaf.data_ptr() == indices.data_ptr() and leaf.dtype == indices.dtype
            unchanged = indices._version == version and found.values._version == before
            if same and unchanged and (leaf.shape, leaf.stride()) == (indices.shape, indices.stride()):
                return found
        return None


def calibrate_selection(rounded: Selection | None, exact: Selection | None, precision: Precision) -> Selection | None:
    """Say which values a kernel may take for equal, from what rounding makes of them.

    Args:
        rounded: of PyTorch at the declared precision.
        exact: of the same forward in fp64.
        precision: the task's policy.

    Returns:
        The exact selection; None unless both are known.
    """
    if rounded is None or exact is None or rounded.values.shape != exact.values.shape:
        return None
    both = torch.isfinite(rounded.values) & torch.isfinite(exact.values)
    errors = (rounded.values.double() - exact.values.double()).abs()[both]
    largest = float(errors.max()) if errors.numel() else 0.0
    flushed = 2 * torch.finfo(rounded.values.dtype).tiny  # a GPU may take what is smaller for zero
    return Selection(exact.values, exact.dim, exact.several, max(MARGIN[precision] * largest, flushed))
