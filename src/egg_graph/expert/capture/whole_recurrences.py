"""Keep a recurrence one operator while a forward is exported. Imports torch.

The exporter writes `aten.lstm.input` down as it stands, but to learn the shapes of its answer it runs PyTorch's rule in
Python, which unrolls every step: minutes for one LSTM.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch._C import DispatchKey
from torch._decomp import decomposition_table

from egg_graph.evaluator import recurrence_answer

RECURRENCES = (
    torch.ops.aten.lstm.input, torch.ops.aten.gru.input, torch.ops.aten.rnn_tanh.input, torch.ops.aten.rnn_relu.input,
)  # fmt: skip


KEYS = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd, DispatchKey.Meta)
"""Where PyTorch registers its rules that unroll; its table of decompositions holds them too."""


@contextmanager
def whole_recurrences() -> Iterator[None]:
    """While active, PyTorch's rules for recurrences in Python give the answer's shapes alone."""
    kernels = {op: dict(op.py_kernels) for op in RECURRENCES}
    rules = {op: decomposition_table[op] for op in RECURRENCES if op in decomposition_table}
    for op in RECURRENCES:
        op.py_kernels.update(dict.fromkeys(KEYS, recurrence_answer))
        op._dispatch_cache.clear()
    decomposition_table.update(dict.fromkeys(rules, recurrence_answer))
    try:
        yield
    finally:
        decomposition_table.update(rules)
        for op, before in kernels.items():
            op.py_kernels.clear()
            op.py_kernels.update(before)
            op._dispatch_cache.clear()
