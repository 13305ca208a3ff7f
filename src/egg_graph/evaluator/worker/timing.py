"""Timing commands of the candidate's process. What they use is looked up before the candidate's module is imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch

from egg_graph.evaluator.device.driver import BareGpu
from egg_graph.evaluator.device.layout import Layout
from egg_graph.evaluator.device.stream_timer import (
    Clock,
    Place,
    Sealed,
    find_pace,
    flush_bytes,
    no_collection,
    spin_for,
)
from egg_graph.evaluator.wire.exchange import DTYPES, dtype_name, flatten

Command = dict[str, Any]
Answer = dict[str, Any]
PLAIN = (torch.Tensor, torch.nn.Parameter)
_copy = torch.Tensor.copy_
_empty = torch.empty


class WorkerClock:
    """The timing part of a worker; made before the candidate is imported, opened (`clock`) when it is to be timed.

    Args:
        tensor: opens a tensor of the judge's by its form.
        put_inputs: sets the inputs of the next forward.
        forward: calls the candidate on them.
    """

    def __init__(
        self,
        tensor: Callable[[dict[str, Any]], torch.Tensor],
        put_inputs: Callable[[list[Any]], None],
        forward: Callable[[], Any],
    ) -> None:
        self.tensor, self.put_inputs, self.forward = tensor, put_inputs, forward
        self.gpu = BareGpu()
        self.clock: Clock | None = None
        self.own_flush: torch.Tensor | None = None
        self.blank: torch.Tensor | None = None
        self.buffers: list[torch.Tensor] = []
        """Two places for inputs, flat."""
        self.kept: list[list[Any]] = []
        """In each place, inputs whose tensor objects stay."""
        self.layout = Layout([], 0)
        self.staging: list[Place] = []
        self.targets: list[list[tuple[dict[str, Any], torch.Tensor]]] = []
        self.stamps = Place(0, 0)
        self.last: Any = None
        """The answer of the latest timed call, until the next begins."""
        self.commands: dict[str, Callable[[Command], Answer]] = {
            "clock": self.open,
            "warm": self.warm,
            "time": self.time,
            "again": self.again,
            "burst": self.burst,
            "finish": self.finish,
            "series": self.series,
        }

    def open(self, command: Command) -> Answer:
        """Take the judge's buffers: staging, inputs, targets of answers, stamps, and what is written as a flush."""
        tensor = self.tensor
        self.close()
        self.clock = Clock(self.gpu, _place(tensor(command["flush"])))
        self.staging = [_place(tensor(form)) for form in command["staging"]]
        self.stamps = _place(tensor(command["stamps"]))
        self.layout = Layout(command["layout"], self.staging[0].nbytes)
        self.buffers = [tensor(form) for form in command["buffers"]]
        self.kept = [self.layout.views(buffer) for buffer in self.buffers]
        self.targets = [[(form, tensor(form)) for form in forms] for forms in command["targets"]]
        self.gpu.forget_l2()
        return {"ok": True}

    def close(self) -> None:
        """Let go of everything that lies in the judge's buffers."""
        self.clock, self.last = None, None
        self.staging, self.buffers, self.kept, self.targets = [], [], [], []

    def warm(self, command: Command) -> Answer:
        """Forwards on the worker's inputs for some seconds; answers their `Pace`."""
        return asdict(find_pace(self.forward, command["seconds"]))

    def time(self, command: Command) -> Answer:
        """One call on the inputs of one set, its answer copied into that set's targets in stream order.

        The command's `first` begins a block. Every call, recorded or not, comes this way.
        """
        assert self.clock is not None
        self.last = None
        if command["first"]:
            self.gpu.forget_l2()
        number = command["set"]
        told: Answer = {}

        def deliver(result: Any) -> None:
            self.last = result
            told["structure"], told["leaves"] = self._put(result, number)

        reading = self.clock.once(
            self._on(command["buffer"], fresh=command["fresh"]),
            sealed=self._sealed(number, command["key"], command["buffer"]),
            spin_ns=command["spin_ns"],
            filling=command["filling"],
            stamps=self.stamps.pointer + 16 * number,
            deliver=deliver,
        )
        return {"ms": reading.milliseconds, "queued_ms": reading.queued_ms, **told}

    def again(self, command: Command) -> Answer:
        """The answer of the latest timed call as it is by now, delivered once more."""
        structure, forms = self._put(self.last, command["set"])
        self.gpu.wait()
        return {"structure": structure, "leaves": forms}

    def burst(self, command: Command) -> Answer:
        """Queue calls on some sets behind one spin and answer without waiting; with `forward` false, all but them."""
        assert self.clock is not None
        self.last = None
        calls = list(zip(command["sets"], command["keys"], command["buffers"], strict=True))
        told: list[tuple[str, list[Any]]] = []
        with no_collection():
            self.gpu.spin(command["spin_ns"])
            for number, key, buffer in calls:
                self.clock.prepare(self._sealed(number, key, buffer), command["filling"])
                if command["forward"]:
                    told.append(self._put(self._on(buffer, fresh=False)(), number))
                else:
                    self._put_nothing(number)
        return {"answers": told}

    def finish(self, command: Command) -> Answer:
        """Wait for what `burst` queued."""
        self.gpu.wait()
        return {"ok": True}

    def series(self, command: Command) -> Answer:
        """Calls on the worker's own inputs, timed by events alone: enough to rank configurations of one kernel."""
        if self.own_flush is None:
            self.own_flush = _empty(flush_bytes(), dtype=torch.uint8, device="cuda")
        self.gpu.forget_l2()
        clock = Clock(self.gpu, _place(self.own_flush))
        spin_ns = spin_for(command["queued_ms"])
        return {"ms": clock.series(self.forward, calls=command["calls"], lead=command["lead"], spin_ns=spin_ns)}

    def _on(self, buffer: int, *, fresh: bool) -> Callable[[], Any]:
        """The worker's forward on one of the two places."""
        self.put_inputs(self.layout.views(self.buffers[buffer]) if fresh else self.kept[buffer])
        return self.forward

    def _sealed(self, number: int, key: str, buffer: int) -> Sealed:
        return Sealed(self.staging[number], _place(self.buffers[buffer]), int(key, 16))

    def _put(self, result: Any, number: int) -> tuple[str, list[Any]]:
        """Queue copies of an answer's leaves into a set's targets, where they fit; its structure and their forms."""
        structure, leaves = flatten(result)
        forms: list[Any] = []
        for leaf, (form, target) in zip(leaves, self.targets[number], strict=False):
            if type(leaf) not in PLAIN:
                forms.append({"strange": type(leaf).__name__})
                continue
            forms.append({"dtype": dtype_name(leaf), "shape": list(leaf.shape)})
            if forms[-1]["dtype"] != form["dtype"] or forms[-1]["shape"] != form["shape"]:
                continue
            if leaf.device == target.device and leaf.stride() == target.stride() and not _lazy(leaf):
                self.gpu.copy(target.data_ptr(), leaf.data_ptr(), leaf.numel() * DTYPES[form["dtype"]].itemsize)
            else:
                _copy(target, leaf.detach())
        return structure, forms

    def _put_nothing(self, number: int) -> None:
        """As many copied bytes as an answer of that set has."""
        for _, target in self.targets[number]:
            nbytes = target.numel() * target.element_size()
            if self.blank is None or self.blank.numel() < nbytes:
                self.blank = _empty(nbytes, dtype=torch.uint8, device="cuda")
            self.gpu.copy(target.data_ptr(), self.blank.data_ptr(), nbytes)


def _place(tensor: torch.Tensor) -> Place:
    return Place(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def _lazy(leaf: torch.Tensor) -> bool:
    return leaf.is_conj() or leaf.is_neg()
