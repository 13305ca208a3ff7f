"""Answer a recurrence under fake tensors as one operator, where PyTorch would run it step by step.

PyTorch has no rule for the shapes of an LSTM, GRU or RNN: under fake tensors it runs every step of every layer, some
twenty operators each. What the steps would have computed is told instead of counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

STEP_OPERATORS = {"lstm": 12, "gru": 19, "rnn_tanh": 6, "rnn_relu": 6}
"""Operators of one step of one layer in one direction, by the recurrence's name in `torch`."""


@dataclass(frozen=True)
class Recurrence:
    """One call of a recurrence, as told to a listener."""

    name: str
    """The operator: `aten.lstm.input`."""
    operators: int
    """Operators that its steps would have run."""
    flops: int
    """Multiplications and additions of its matrix products."""
    tensors: tuple[torch.Tensor, ...]
    """Operands and results."""


class WholeRecurrences(TorchFunctionMode):
    """While active, a recurrence on fake tensors is one operator. One on real tensors runs as it always does.

    Args:
        hear: is called with every recurrence that was answered.
    """

    def __init__(self, hear: Callable[[Recurrence], object] = bool) -> None:
        super().__init__()
        self.hear = hear

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        # The form for packed sequences has the sizes of its batches in second place, and its weights in fourth.
        if name not in STEP_OPERATORS or kwargs or len(args) != 9 or not isinstance(args[0], FakeTensor):
            return function(*args, **(kwargs or {}))
        x, hidden, weights, batch_first = args[0], args[1], args[2], args[8]
        states = tuple(hidden) if isinstance(hidden, list | tuple) else (hidden,)
        answer = recurrence_answer(*args)
        length = x.shape[1 if batch_first else 0]
        matrices = sum(w.numel() for w in weights if w.dim() == 2)
        self.hear(
            Recurrence(
                name=f"aten.{name}.input",
                operators=STEP_OPERATORS[name] * length * states[0].shape[0],
                flops=2 * matrices * length * states[0].shape[1],
                tensors=(x, *states, *weights, *answer),
            )
        )
        return answer


def recurrence_answer(
    x: torch.Tensor,
    hidden: torch.Tensor | Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, ...]:
    """The answer of `torch.lstm`, `torch.gru` and `torch.rnn_*`, whose arguments it takes, without its values.

    Args:
        x: input; [batch, length, features] if `batch_first`, else [length, batch, features].
        hidden: the state, or an LSTM's two states; each [layers * directions, batch, width].

    Returns:
        The output, as the input but [..., directions * width], and the last states.
    """
    states = tuple(hidden) if isinstance(hidden, list | tuple) else (hidden,)
    length, batch = (x.shape[1], x.shape[0]) if batch_first else (x.shape[0], x.shape[1])
    output = x.new_empty(length, batch, states[0].shape[2] * (2 if bidirectional else 1))
    return (output.transpose(0, 1) if batch_first else output, *(state.new_empty(state.shape) for state in states))
