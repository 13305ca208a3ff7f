"""Counting the products of a forward: attention on a CPU included, and causal attention only below the diagonal."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count


def _attention(query: Any, key: Any, value: Any, *rest: Any, out_shape: Any = None, **options: Any) -> int:
    return sdpa_flop_count(query, key, value)


class Products(FlopCounterMode):
    """torch's own counter, less the products that `is_causal=True` makes unnecessary.

    A score above the diagonal is minus infinity whatever the operands, so no kernel has to compute it or its share of
    the second product; torch counts it all the same. A mask given as a tensor is data, and counts in full.
    """

    def __init__(self) -> None:
        mapping = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention}
        super().__init__(display=False, custom_mapping=mapping)
        self.spared = 0
        self._watch = _Causal(self)

    def __enter__(self) -> Self:
        super().__enter__()
        self._watch.__enter__()
        return self

    def __exit__(self, *exc: Any) -> Any:
        self._watch.__exit__(*exc)
        return super().__exit__(*exc)

    def get_total_flops(self) -> int:
        """Multiplications and additions of all matrix products that are necessary."""
        return int(super().get_total_flops()) - self.spared


class _Causal(TorchFunctionMode):
    """Notes what causal attention need not compute."""

    def __init__(self, counter: Products) -> None:
        super().__init__()
        self.counter = counter

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is not torch.nn.functional.scaled_dot_product_attention:
            return function(*args, **kwargs)
        before = self.counter.get_total_flops()
        answer = function(*args, **kwargs)
        if kwargs.get("is_causal", args[5] if len(args) > 5 else False):
            query, key = (kwargs[name] if name in kwargs else args[i] for i, name in enumerate(("query", "key")))
            queries, keys = query.shape[-2], key.shape[-2]
            counted = self.counter.get_total_flops() - before
            self.counter.spared += counted - counted * _kept(queries, keys) // (queries * keys)
        return answer


def _kept(queries: int, keys: int) -> int:
    """Scores on and below the diagonal, which starts at the upper left corner."""
    square = min(queries, keys)
    return square * (square + 1) // 2 + (queries - square) * keys


def flop_counter() -> Products:
    """A counter to enter round a forward; `get_total_flops()` tells the sum."""
    return Products()
