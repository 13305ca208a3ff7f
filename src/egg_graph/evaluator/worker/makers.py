"""Which operator of PyTorch had computed an answer before any own kernel touched it, bit for bit.

A kernel whose whole effect on that is the identity (a copy, plus zero, times one) replaces nothing. The process is the
candidate's, so this is a testimony, as all that `recorder` tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import torch

from egg_graph.evaluator.wire.operators import ALLOCATING, COPIES, as_it_lies, operator_name
from egg_graph.evaluator.wire.poison import INTEGERS

MIN_ELEMENTS = 8
"""Smallest result that is looked at: smaller ones may be equal by chance."""
PIECE = 1 << 26
"""Elements that are summed at once, so that no large copy is made."""
_leaves = torch.utils._pytree.tree_leaves
_capturing = torch.cuda.is_current_stream_capturing
Print = tuple[torch.dtype, int, tuple[int, ...]]
"""Dtype, number of elements, and sums over the bits of a tensor."""


class Makers:
    """Follows one forward: results of operators that depend on nothing that an own kernel was given to write.

    Args:
        given: inputs, parameters and buffers; a kernel that gets them reads them.
    """

    def __init__(self, given: Iterable[torch.Tensor] = ()) -> None:
        self.tensors = [x for x in given if isinstance(x, torch.Tensor)]
        self.given = {_memory(x) for x in self.tensors}
        self.touched: set[int] = set()
        """Memory that own kernels were given beside, or that holds what was computed from it."""
        self.computed: set[int] = set()
        """Memory with a result of operators alone."""
        self.known: dict[Print, str] = {}
        self.places: dict[Print, int] = {}
        """Memory where each of these results lay first, by its print in the order in which it lies there."""
        self.launched: set[int] = set()
        """Memory that own kernels were given last, and no operator wrote since."""
        self.copied = False
        """Whether an operator was handed a kernel's plain copy of what was given, or of what operators had computed."""

    def note_launch(self, arguments: Sequence[Any]) -> None:
        """Note what an own kernel was launched with."""
        for value in _leaves(list(arguments)):
            tensor = getattr(value, "base", value)  # of a descriptor, or a reinterpreted tensor
            if isinstance(tensor, torch.Tensor) and _memory(tensor) not in self.given:
                self.touched.add(_memory(tensor))
                self.launched.add(_memory(tensor))

    def note_operator(self, name: str, operands: Sequence[Any], result: Any) -> None:
        """Note one operator that ran, by its full name."""
        short = operator_name(name)
        results = [x for x in _leaves(result) if _is_plain(x)]
        if short in ALLOCATING or not results or (results[0].is_cuda and _capturing()):
            return
        read = [x for x in (operands[1:] if short == "copy_" else operands) if _is_plain(x)]
        memories = {_memory(x) for x in read}
        if any(_memory(x) in memories for x in results) and not name.partition(".")[2].partition(".")[0].endswith("_"):
            return  # a view
        self.copied = self.copied or any(map(self._is_copy, read))
        touched = bool(memories & self.touched)
        own = bool(memories) and not touched and (short not in COPIES or bool(memories & self.computed))
        for x in results:
            self.touched.discard(_memory(x))
            self.launched.discard(_memory(x))
            self.computed.discard(_memory(x))
            if touched:
                self.touched.add(_memory(x))
            elif own:
                self.computed.add(_memory(x))
                if x.numel() >= MIN_ELEMENTS:
                    self.known.setdefault(fingerprint(x), name)
                    self.places.setdefault(fingerprint(as_it_lies(x)), _memory(x))

    def _is_copy(self, x: torch.Tensor) -> bool:
        """Whether a tensor that kernels were given holds what lay elsewhere before, in the same order."""
        if _memory(x) not in self.launched or x.numel() < MIN_ELEMENTS:
            return False
        print_of = fingerprint(as_it_lies(x))
        return print_of in self._of_given or self.places.get(print_of, _memory(x)) != _memory(x)

    @cached_property
    def _of_given(self) -> set[Print]:
        return {fingerprint(as_it_lies(x)) for x in self.tensors if _is_plain(x)}

    def maker(self, output: Any) -> str:
        """Name the operator that had computed an answer; empty unless every leaf has one."""
        leaves = [x for x in _leaves(output) if isinstance(x, torch.Tensor)]
        if not self.known or not leaves or not all(_is_plain(x) and x.numel() >= MIN_ELEMENTS for x in leaves):
            return ""
        makers = [self.known.get(fingerprint(x), "") for x in leaves]
        return makers[0] if all(makers) else ""


def fingerprint(x: torch.Tensor) -> Print:
    """Sums over the bits of a tensor's elements in logical order; zeros of both signs count alike."""
    flat = x.detach().reshape(-1)
    flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
    sums = [0, 0, 0]
    for start in range(0, flat.numel(), PIECE):
        piece = flat[start : start + PIECE]
        piece = piece + 0.0 if piece.is_floating_point() and piece.element_size() > 1 else piece
        bits = piece.view(INTEGERS[piece.element_size()])
        for number, step in enumerate((1, 3, 7)):
            sums[number] += int(bits[::step].sum(dtype=torch.int64))
    return x.dtype, x.numel(), tuple(sums)


def _is_plain(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.layout is torch.strided and x.device.type != "meta" and x.numel() > 0


def _memory(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr()
