"""Count the flops that a forward needs: attention on a CPU included, causal attention only up to the diagonal."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from egg_graph.evaluator.wire.product_flops import attention_flops, product_flops

ON_CPU = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


class NecessaryFlops(FlopCounterMode):
    """Count flops with torch's own counter, less those that `is_causal=True` makes unnecessary.

    A score above the diagonal is minus infinity whatever the operands, so no kernel has to compute it or its share of
    the second product; torch counts it all the same. A mask that is given as a tensor is data and counts in full.
    """

    def __init__(self) -> None:
        super().__init__(display=False)
        self.unnecessary = 0
        """Flops that torch counted for scores above the diagonal."""
        self.uncounted: set[str] = set()
        """Operators of which some call could not be counted. The total is a lower bound then."""
        self._causal = _CausalAttention(self)

    def __enter__(self) -> Self:
        super().__enter__()
        self._causal.__enter__()
        return self

    def __exit__(self, *exc: Any) -> Any:
        self._causal.__exit__(*exc)
        return super().__exit__(*exc)

    def get_total_flops(self) -> int:
        """Multiplications and additions of all necessary matrix products, as far as they could be counted."""
        return int(super().get_total_flops()) - self.unnecessary

    def _count_flops(self, func_packet: Any, out: Any, args: Any, kwargs: Any) -> Any:
        """Count one call of an operator. torch's own method lets a formula's failure end the forward."""
        on_cpu = func_packet is ON_CPU
        flops = attention_flops(*args[:3]) if on_cpu else product_flops(func_packet, args, kwargs, out)
        if flops is None:
            self.uncounted.add(str(func_packet))
        else:
            self.flop_counts["Global"][func_packet] += int(flops)
        return out


class _CausalAttention(TorchFunctionMode):
    """Adds up the flops that causal attention need not spend."""

    def __init__(self, counter: NecessaryFlops) -> None:
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
            self.counter.unnecessary += counted - counted * _scores_below_diagonal(queries, keys) // (queries * keys)
        return answer


def _scores_below_diagonal(queries: int, keys: int) -> int:
    """Number of scores on and below the diagonal, which starts at the upper left corner."""
    square = min(queries, keys)
    return square * (square + 1) // 2 + (queries - square) * keys
