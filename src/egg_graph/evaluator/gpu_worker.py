"""The candidate's process on a GPU: constructs it, runs it and times single calls, one command at a time.

It holds the candidate, the weights, and the inputs of the calls it is told to make; never an expected answer, the
reference, a seed of a later call, or the verdict. Results go into buffers that the judge owns and poisoned before.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from egg_graph.evaluator import exchange
from egg_graph.evaluator.child import describe_failure, name_the_line_when_stuck
from egg_graph.evaluator.compare import poison_
from egg_graph.evaluator.gpu_clock import find_pace, flush_bytes, time_block
from egg_graph.evaluator.gpu_memory import close_handle, open_handle, view
from egg_graph.evaluator.interpreter.module import construct, load_module, load_weights

SPIN_CYCLES = 20_000_000
"""About 10 ms on the GPU: long enough for the host to queue a whole forward behind it."""


def serve(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Answer commands on the socket `channel` until it closes."""
    worker = Worker(folder)
    with socket.socket(fileno=os.dup(channel)) as control, control.makefile("rb") as lines:
        for line in lines:
            command = json.loads(line)
            name_the_line_when_stuck(max(0.5, command["limit"] - 1.0))
            try:
                answer = worker.obey(command)
            except BaseException as error:  # noqa: BLE001 - the candidate may raise anything; it is a finding
                answer = {"finding": describe_failure(error, folder)}
            name_the_line_when_stuck(0)
            control.sendall(json.dumps(answer).encode() + b"\n")
            if "finding" in answer:
                break
    return {}


class Worker:
    """State between commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened: dict[str, int] = {}
        self.inputs: list[Any] = []
        self.model: Any = None
        self.seed = 0
        self.flush: torch.Tensor | None = None
        self.launched: list[dict[str, Any]] = []
        self.events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """One command by name."""
        do = {
            "start": self.start,
            "load": self.load,
            "inputs": self.take_inputs,
            "call": self.call,
            "record": self.record,
            "warm": self.warm,
            "time": self.time,
            "release": self.release,
        }
        return do[command["do"]](command)

    def start(self, command: dict[str, Any]) -> dict[str, Any]:
        """Open the GPU. Nothing of the candidate has run yet."""
        torch.cuda.set_device(0)
        torch.cuda.set_per_process_memory_fraction(command["memory_fraction"])
        torch.cuda.synchronize()
        return {"ok": True}

    def load(self, command: dict[str, Any]) -> dict[str, Any]:
        """Construct ModelNew on the GPU (as the reference is) and give it the reference's weights."""
        _pin_flags(command["precision"])
        args, kwargs = exchange.decode(command["arguments"], exchange.inline_tensor)
        self.seed = command["seed"]
        module = load_module(self.folder / "candidate.py")
        torch.manual_seed(self.seed)
        with torch.device("cuda"):  # to draw gigabytes of weights on the CPU, only to replace them, takes seconds
            model = construct(module, args, kwargs)
        dtype = command["dtype"]
        model = model.to("cuda") if dtype is None else model.to("cuda", exchange.DTYPES[dtype])
        load_weights(model, {name: self._tensor(form) for name, form in command["state"].items()})
        self.model = model
        return {"ok": True}

    def take_inputs(self, command: dict[str, Any]) -> dict[str, Any]:
        """The inputs of the next calls, and the seed before each."""
        self.inputs = [exchange.decode(entry, self._tensor) for entry in command["inputs"]]
        self.seed = command["seed"]
        return {"ok": True}

    def call(self, command: dict[str, Any]) -> dict[str, Any]:
        """One forward in poisoned memory; its leaves are copied to the judge's buffers where they fit."""
        torch.manual_seed(self.seed)
        with _Poison():
            output = self._forward()
        torch.cuda.synchronize()
        structure, forms = self._deliver(output, command["outputs"])
        return {"structure": structure, "leaves": forms}

    def _deliver(self, output: Any, targets: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
        """Copy the leaves of an answer into the judge's buffers where they fit; its structure and their forms."""
        structure, leaves = exchange.flatten(output)
        forms = [
            {"dtype": exchange.dtype_name(leaf), "shape": list(leaf.shape)}
            if type(leaf) in (torch.Tensor, torch.nn.Parameter)
            else {"strange": type(leaf).__name__}
            for leaf in leaves
        ]
        for leaf, target, form in zip(leaves, targets, forms, strict=False):
            if "strange" not in form and all(form[key] == target[key] for key in ("dtype", "shape")):
                self._tensor(target).copy_(leaf)
        torch.cuda.synchronize()
        return structure, forms

    def record(self, command: dict[str, Any]) -> dict[str, Any]:
        """Two forwards that note every launch: what was compiled, and the part of GPU time in own kernels."""
        from triton.runtime.jit import JITFunction

        original = JITFunction.run

        def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **keywords: Any) -> Any:
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            sizes: list[Any] = [grid]

            def noted(meta: Any) -> Any:
                sizes[0] = grid(meta)
                return sizes[0]

            before.record()
            compiled = original(kernel, *args, grid=noted if callable(grid) else grid, warmup=warmup, **keywords)
            after.record()
            if not warmup:
                self.events.append((before, after))
                self.launched.append(_resources(compiled, sizes[0]))
            return compiled

        JITFunction.run = run
        try:
            for _ in range(2):
                self.events, self.launched = [], []
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                torch.cuda._sleep(SPIN_CYCLES)
                start.record()
                self._forward()
                end.record()
                torch.cuda.synchronize()
        finally:
            JITFunction.run = original
        own, total = sum(a.elapsed_time(b) for a, b in self.events), start.elapsed_time(end)
        share = min(1.0, own / total) if total > 0 else 0.0
        return {"launches": self.launched, "share": share, "total_ms": total}

    def warm(self, command: dict[str, Any]) -> dict[str, Any]:
        """Forwards for some seconds; answers their `Pace`."""
        return asdict(find_pace(self._forward, command["seconds"]))

    def time(self, command: dict[str, Any]) -> dict[str, Any]:
        """One block of timed forwards; the answer of call `keep` is delivered like that of `call`."""
        if self.flush is None:
            self.flush = torch.empty(flush_bytes(), dtype=torch.uint8, device="cuda")
        kept: dict[str, Any] = {}

        def take(number: int, output: Any) -> None:
            if number == command["keep"]:
                kept["structure"], kept["leaves"] = self._deliver(output, command["outputs"])

        milliseconds = time_block(
            self._forward,
            self.flush,
            calls=command["calls"],
            spin_cycles=command["spin_cycles"],
            lead=command["lead"],
            take=take,
        )
        return {"ms": milliseconds, **kept}

    def release(self, command: dict[str, Any]) -> dict[str, Any]:
        """Close buffers that the judge is about to free; inputs that lay in them are gone."""
        torch.cuda.synchronize()
        self.inputs = []
        for handle in command["handles"]:
            pointer = self.opened.pop(handle, None)
            if pointer is not None:
                close_handle(pointer)
        return {"ok": True}

    def _forward(self) -> Any:
        with torch.no_grad():
            return self.model(*self.inputs)

    def _tensor(self, form: dict[str, Any]) -> torch.Tensor:
        if form["handle"] not in self.opened:
            self.opened[form["handle"]] = open_handle(form["handle"])
        return view(self.opened[form["handle"]], form)


class _Poison(TorchDispatchMode):
    """Fresh memory holds a NaN that no arithmetic makes, so that what nobody wrote is seen."""

    FACTORIES = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"})

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if function.overloadpacket.__name__ in self.FACTORIES and isinstance(result, torch.Tensor) and result.is_cuda:
            poison_(result)
        return result


def _pin_flags(precision: str) -> None:
    """Library products of a candidate obey the policy too."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"


def _resources(compiled: Any, grid: Any) -> dict[str, Any]:
    """What the driver made of a launched kernel, as JSON."""
    metadata = compiled.metadata
    return {
        "kernel": str(metadata.name),
        "grid": [int(n) for n in (grid if isinstance(grid, tuple | list) else (grid,))],
        "num_warps": int(metadata.num_warps),
        "num_stages": int(getattr(metadata, "num_stages", 0)),
        "registers": compiled.n_regs,
        "spills": compiled.n_spills,
        "shared": int(metadata.shared),
    }
