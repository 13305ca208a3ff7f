"""Timing commands of the candidate's process. What they use is looked up before the candidate's module is imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

from egg_graph.evaluator.device.driver import CudaDriver
from egg_graph.evaluator.device.layout import Layout
from egg_graph.evaluator.device.stream_timer import (
    TIMESTAMP_BYTES,
    DeviceBuffer,
    EncryptedInputs,
    StreamTimer,
    flush_bytes,
    measure_host_latency,
    spin_ns_for,
)
from egg_graph.evaluator.garbage_collection import garbage_collection_off
from egg_graph.evaluator.wire.exchange import DTYPES, dtype_name, flatten
from egg_graph.evaluator.wire.leaf import PLAIN

Command = dict[str, Any]
Answer = dict[str, Any]
_copy = torch.Tensor.copy_
_empty = torch.empty


class TimingCommands:
    """The timing part of a worker. It is made before the candidate is imported; `open` gives it the judge's buffers.

    Args:
        tensor: opens a tensor of the judge by its form.
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
        self.driver = CudaDriver()
        self.timer: StreamTimer | None = None
        """Flushes the judge's buffer; None until `open`."""
        self.own_flush: torch.Tensor | None = None
        """Flush buffer of `time_series`, which has none of the judge's."""
        self.blank: torch.Tensor | None = None
        """Memory that is copied in place of an answer."""
        self.input_buffers: list[torch.Tensor] = []
        """Flat memory for decrypted inputs; one or two buffers."""
        self.kept_inputs: list[list[Any]] = []
        """For each buffer, inputs whose tensor objects stay the same from call to call."""
        self.layout = Layout([], 0)
        self.staging: list[DeviceBuffer] = []
        """Encrypted inputs, one buffer per set."""
        self.targets: list[list[tuple[dict[str, Any], torch.Tensor]]] = []
        """For each set, form and memory of every leaf of the answer."""
        self.timestamps = DeviceBuffer(0, 0)
        self.last_answer: Any = None
        """Answer of the latest timed call, until the next call begins."""
        self.commands: dict[str, Callable[[Command], Answer]] = {
            "open_timing": self.open,
            "warm_up": self.warm_up,
            "time_call": self.time_call,
            "deliver_again": self.deliver_again,
            "queue_burst": self.queue_burst,
            "call_repeatedly": self.call_repeatedly,
            "synchronize": self.synchronize,
            "time_series": self.time_series,
        }

    def open(self, command: Command) -> Answer:
        """Take the judge's buffers: staging, inputs, targets of answers, timestamps and flush."""
        tensor = self.tensor
        self.close()
        self.timer = StreamTimer(self.driver, DeviceBuffer.of(tensor(command["flush"])))
        self.staging = [DeviceBuffer.of(tensor(form)) for form in command["staging"]]
        self.timestamps = DeviceBuffer.of(tensor(command["timestamps"]))
        self.layout = Layout(command["layout"], self.staging[0].nbytes)
        self.input_buffers = [tensor(form) for form in command["input_buffers"]]
        self.kept_inputs = [self.layout.views(buffer) for buffer in self.input_buffers]
        self.targets = [[(form, tensor(form)) for form in forms] for forms in command["targets"]]
        self.driver.reset_persisting_l2()
        return {"ok": True}

    def close(self) -> None:
        """Drop everything that lies in the judge's buffers."""
        self.timer, self.last_answer = None, None
        self.staging, self.input_buffers, self.kept_inputs, self.targets = [], [], [], []

    def warm_up(self, command: Command) -> Answer:
        """Call the forward on the worker's inputs for `seconds`; answers the fields of its `HostLatency`."""
        return asdict(measure_host_latency(self.forward, command["seconds"]))

    def time_call(self, command: Command) -> Answer:
        """Time one call on one set of inputs, and copy its answer into that set's targets in stream order.

        `first` marks the first call of a block. Calls whose time is not recorded come this way as well. With `null_ns`
        a null kernel of that duration stands for the forward, and memory that nobody wrote for its answer.
        """
        assert self.timer is not None
        self.last_answer = None
        null_ns = command["null_ns"]
        if command["first"]:
            self.driver.reset_persisting_l2()
        number = command["set"]
        delivered: Answer = {}

        def deliver(result: Any) -> None:
            if null_ns:
                self._queue_blank_copies(number)
                return
            self.last_answer = result
            delivered["structure"], delivered["leaves"] = self._queue_copies(result, number)

        call = self.timer.time_call(
            partial(self.driver.spin, null_ns)
            if null_ns
            else self._forward_on(command["buffer"], fresh=command["fresh"]),
            inputs=self._encrypted_inputs(number, command["key"], command["buffer"]),
            spin_ns=command["spin_ns"],
            flush_value=command["flush_value"],
            timestamps=self.timestamps.pointer + TIMESTAMP_BYTES * number,
            deliver=deliver,
        )
        return {"event_ms": call.event_ms, "queue_ms": call.queue_ms, **delivered}

    def deliver_again(self, command: Command) -> Answer:
        """Copy the answer of the latest timed call once more, as it is by now."""
        structure, forms = self._queue_copies(self.last_answer, command["set"])
        self.driver.synchronize()
        return {"structure": structure, "leaves": forms}

    def queue_burst(self, command: Command) -> Answer:
        """Queue calls on several sets behind one spin, and answer without waiting for the GPU.

        If `forward` is false, everything but the forwards is queued, with copies of the same size; with `null_ns` a
        null kernel of that duration in the place of each.
        """
        assert self.timer is not None
        self.last_answer = None
        calls = list(zip(command["sets"], command["keys"], command["buffers"], strict=True))
        answers: list[tuple[str, list[Any]]] = []
        with garbage_collection_off():
            self.driver.spin(command["spin_ns"])
            for number, key, buffer in calls:
                self.timer.queue_preparation(self._encrypted_inputs(number, key, buffer), command["flush_value"])
                if command["forward"]:
                    answers.append(self._queue_copies(self._forward_on(buffer, fresh=False)(), number))
                    continue
                if command["null_ns"]:
                    self.driver.spin(command["null_ns"])
                self._queue_blank_copies(number)
        return {"answers": answers}

    def call_repeatedly(self, command: Command) -> Answer:
        """Call the forward on the worker's inputs `calls` times, back to back, and wait for the GPU."""
        self.last_answer = None
        for _ in range(command["calls"]):
            self.forward()
        self.driver.synchronize()
        return {"ok": True}

    def synchronize(self, command: Command) -> Answer:
        """Wait for what `queue_burst` queued."""
        self.driver.synchronize()
        return {"ok": True}

    def time_series(self, command: Command) -> Answer:
        """Time calls on the worker's own inputs by events alone, which is enough to rank configurations of a kernel."""
        if self.own_flush is None:
            self.own_flush = _empty(flush_bytes(), dtype=torch.uint8, device="cuda")
        self.driver.reset_persisting_l2()
        timer = StreamTimer(self.driver, DeviceBuffer.of(self.own_flush))
        times = timer.time_calls(
            self.forward,
            calls=command["calls"],
            warmup_calls=command["warmup_calls"],
            spin_ns=spin_ns_for(command["queue_ms"]),
        )
        return {"event_ms": times}

    def _forward_on(self, buffer: int, *, fresh: bool) -> Callable[[], Any]:
        """Set the inputs to one of the buffers, by fresh or by kept tensor objects; returns the worker's forward."""
        self.put_inputs(self.layout.views(self.input_buffers[buffer]) if fresh else self.kept_inputs[buffer])
        return self.forward

    def _encrypted_inputs(self, number: int, key: str, buffer: int) -> EncryptedInputs:
        return EncryptedInputs(self.staging[number], DeviceBuffer.of(self.input_buffers[buffer]), int(key, 16))

    def _queue_copies(self, result: Any, number: int) -> tuple[str, list[Any]]:
        """Queue copies of an answer's leaves into a set's targets where they fit; returns structure and forms."""
        structure, leaves = flatten(result)
        forms: list[Any] = []
        for leaf, (form, target) in zip(leaves, self.targets[number], strict=False):
            if type(leaf) not in PLAIN:
                forms.append({"strange": type(leaf).__name__})
                continue
            forms.append({"dtype": dtype_name(leaf), "shape": list(leaf.shape)})
            if forms[-1]["dtype"] != form["dtype"] or forms[-1]["shape"] != form["shape"]:
                continue
            if leaf.device == target.device and leaf.stride() == target.stride() and not _has_lazy_bit(leaf):
                self.driver.copy(target.data_ptr(), leaf.data_ptr(), leaf.numel() * DTYPES[form["dtype"]].itemsize)
            else:
                _copy(target, leaf.detach())
        return structure, forms

    def _queue_blank_copies(self, number: int) -> None:
        """Queue copies of as many bytes as an answer of that set has."""
        for _, target in self.targets[number]:
            nbytes = target.numel() * target.element_size()
            source = self.staging[number]
            if source.nbytes < nbytes:
                if self.blank is None or self.blank.numel() < nbytes:
                    self.blank = _empty(nbytes, dtype=torch.uint8, device="cuda")
                source = DeviceBuffer.of(self.blank)
            self.driver.copy(target.data_ptr(), source.pointer, nbytes)


def _has_lazy_bit(leaf: torch.Tensor) -> bool:
    """Whether a tensor's memory holds the conjugate or the negative of its values."""
    return leaf.is_conj() or leaf.is_neg()
