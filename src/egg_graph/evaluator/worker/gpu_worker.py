"""The candidate's process on a GPU: constructs it and runs it, one command at a time.

It holds the candidate, the weights, and the inputs of the calls it is told to make; never an expected answer, the
reference, a seed of a later call, or the verdict. Results go into buffers that the judge owns and poisoned before.

What it relies on is looked up here, before a candidate's module is imported: replacing a function of a library from
there changes nothing of this (and `fingerprint` finds it).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from json import dumps, loads
from pathlib import Path
from typing import Any

import torch

from egg_graph.evaluator.device.shared_memory import close_handle, open_handle, view
from egg_graph.evaluator.host.candidate import construct, load_module, load_weights, own_tensors
from egg_graph.evaluator.host.child import describe_failure, name_the_line_when_stuck
from egg_graph.evaluator.host.library_state import changes, fingerprint, settings
from egg_graph.evaluator.wire.exchange import DTYPES, decode, flatten, inline_tensor
from egg_graph.evaluator.wire.leaf import Owner, describe_leaf
from egg_graph.evaluator.wire.poison import poison_
from egg_graph.evaluator.wire.uninitialized import Leftovers
from egg_graph.evaluator.worker import recorder
from egg_graph.evaluator.worker.compile_seconds import CompileSeconds
from egg_graph.evaluator.worker.poison import FreshPoison, poison_free_memory
from egg_graph.evaluator.worker.timing import TimingCommands
from egg_graph.schema import TF32, Hardware

_copy = torch.Tensor.copy_
_seed = torch.manual_seed
_send = socket.socket.sendall
_tensors_in = torch.utils._pytree.tree_leaves
Command = dict[str, Any]
Answer = dict[str, Any]


def warm_up() -> None:
    """Enter a dispatch mode before any fork: the first one of a process imports hundreds of modules."""
    with FreshPoison():
        torch.empty(1)


def serve(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Answer commands on the socket `channel` until it closes."""
    worker, compiling = GpuWorker(folder), CompileSeconds()
    with socket.socket(fileno=os.dup(channel)) as control, control.makefile("rb") as lines:
        for line in lines:
            command = loads(line)
            name_the_line_when_stuck(max(0.5, command["limit"] - 1.0))
            before = compiling.total
            try:
                answer = worker.obey(command) | {"compiling": compiling.total - before}
            except BaseException as error:  # noqa: BLE001 - the candidate may raise anything; it is a finding
                answer = {"finding": describe_failure(error, folder)}
            name_the_line_when_stuck(0)
            _send(control, dumps(answer).encode() + b"\n")
            if "finding" in answer:
                break
    return {}


class GpuWorker:
    """State of the candidate's process between commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened: dict[str, int] = {}
        self.inputs: list[Any] = []
        self.model: Any = None
        self.models: list[Any] = []
        """Instances of `ModelNew`; `model` is the one that is called."""
        self.module: Any = None
        self.gradients = False
        self.seed = 0
        self.timing: TimingCommands | None = None
        """Made by `start`; its commands are this worker's too."""
        self.held: list[Any] = []
        """Answers of the last two calls with `keep`, the latest last."""
        self.commands: dict[str, Callable[[Command], Answer]] = {
            "start": self.start,
            "load": self.load,
            "reload": self.reload,
            "turn": self.turn,
            "inputs": self.take_inputs,
            "call": self.call,
            "held": self.deliver_held,
            "state": self.deliver_state,
            "fingerprint": lambda command: {"fingerprint": fingerprint()},
            "first_forward": self.first_forward,
            "record": self.record,
            "silence": self.silence,
            "release": self.release,
        }

    def obey(self, command: Command) -> Answer:
        """Carry out one command by name."""
        return self.commands[command["do"]](command)

    def start(self, command: Command) -> Answer:
        """Open the GPU. Nothing of the candidate has run yet."""
        torch.cuda.set_device(0)
        torch.cuda.set_per_process_memory_fraction(command["memory_fraction"])
        torch.cuda.synchronize()
        self.timing = TimingCommands(self._tensor, self._put_inputs, self._forward)
        self.commands |= self.timing.commands
        return {"ok": True}

    # ------------------------------------------------------------------------------------------ model and weights

    def load(self, command: Command) -> Answer:
        """Construct ModelNew on the GPU (as the reference is) and give it the reference's weights.

        Answers the fingerprint of the libraries as it was before the candidate's module.
        """
        _pin_flags(command["precision"])
        self.seed, self.held, self.model, self.models, self.gradients = command["seed"], [], None, [], False
        recorder.record_captures()
        before = fingerprint()
        self.module = load_module(self.folder / "candidate.py")
        model = self._constructed(command)
        load_weights(model, {name: self._tensor(form) for name, form in command["state"].items()})
        self.model, self.models = model, [model]
        return {"ok": True, "fingerprint": before}

    def _constructed(self, command: Command) -> Any:
        args, kwargs = decode(command["arguments"], inline_tensor)
        _seed(command["seed"])
        with torch.device("cuda"):  # to draw gigabytes of weights on the CPU, only to replace them, takes seconds
            model = construct(self.module, args, kwargs)
        dtype = command["dtype"]
        return model.to("cuda") if dtype is None else model.to("cuda", DTYPES[dtype])

    def turn(self, command: Command) -> Answer:
        """Choose the instance of `ModelNew` that is called from now on (constructed at first use) and its mode.

        With `scribbled`, overwrite the answers so far, as their owner may.
        """
        while len(self.models) <= command["module"]:
            self.models.append(self._constructed(command["construction"]))
        self.model, self.gradients = self.models[command["module"]], command["gradients"]
        if command["evaluating"]:
            self.model.eval()
        if self.gradients:
            for _, tensor in self._own_tensors():
                tensor.requires_grad_(False)
        for leaf in _tensors_in(self.held) if command["scribbled"] else ():
            if isinstance(leaf, torch.Tensor) and torch.ops.aten.is_non_overlapping_and_dense(leaf):
                with torch.inference_mode():  # in which answers that were made in it may be written to
                    poison_(leaf.detach())
        torch.cuda.synchronize()
        return {"ok": True}

    def reload(self, command: Command) -> Answer:
        """Load other weights into the module; `in_place` copies tensor by tensor, as an optimizer does."""
        state = {name: self._tensor(form) for name, form in command["state"].items()}
        if command.get("in_place"):
            with torch.no_grad():
                for name, tensor in self._own_tensors():
                    if name in state:
                        _copy(tensor, state[name])
        else:
            load_weights(self.model, state)
        torch.cuda.synchronize()
        return {"ok": True}

    def deliver_state(self, command: Command) -> Answer:
        """Copy the module's own parameters and buffers into the judge's buffers; their forms by name."""
        own = dict(self._own_tensors())
        forms = {name: describe_leaf(own[name], ()) for name in command["outputs"] if name in own}
        for name, form in forms.items():
            self._put(own[name], command["outputs"][name], form)
        torch.cuda.synchronize()
        return {"state": forms}

    def _own_tensors(self) -> Iterator[Owner]:
        return own_tensors(self.model) if self.model is not None else iter(())

    # ------------------------------------------------------------------------------------------------------ calls

    def take_inputs(self, command: Command) -> Answer:
        """Set the inputs of the next calls and the seed before each; without `inputs`, keep the last ones."""
        if "inputs" in command:
            self.inputs = [decode(entry, self._tensor) for entry in command["inputs"]]
        self.seed = command["seed"]
        return {"ok": True}

    def call(self, command: Command) -> Answer:
        """One forward in poisoned memory (by `leftovers`, in memory that holds any numbers); its leaves are copied to
        the judge's buffers where they fit.

        The copies are queued on the stream that forward was called on, as any user's next operation would be: what
        another stream writes later, without that stream waiting, is not in them.
        """
        poison_free_memory([_nbytes(form) for form in command["outputs"]])
        leftovers = Leftovers(self.seed, "cuda") if command.get("leftovers") else None
        _seed(self.seed)
        before = settings()
        with FreshPoison(leftovers):
            output = self._forward()
        changed = changes(before, settings())
        structure, forms = self._deliver(output, command["outputs"])
        self.held = [*self.held, output][-2:] if command.get("keep") else []
        return {"structure": structure, "leaves": forms, "changed": list(changed)}

    def deliver_held(self, command: Command) -> Answer:
        """Deliver the answer of an earlier call as it is now: `back` 1 is the last call, 2 the one before."""
        torch.cuda.synchronize()
        structure, forms = self._deliver(self.held[-command["back"]], command["outputs"])
        return {"structure": structure, "leaves": forms}

    def silence(self, command: Command) -> Answer:
        """Run one forward whose Triton kernels do nothing and deliver it like `call`; report why where that fails."""
        poison_free_memory([_nbytes(form) for form in command["outputs"]])
        _seed(self.seed)
        try:
            with FreshPoison():
                output = recorder.silence_kernels(self._forward)
        except recorder.KernelsNotSeparable as untried:
            return {"untried": str(untried)}
        except Exception as error:  # noqa: BLE001 - it needed what the kernels compute: that is the answer sought
            return {"raised": f"{type(error).__name__}: {error}"[:400]}
        structure, forms = self._deliver(output, command["outputs"])
        return {"structure": structure, "leaves": forms}

    def _deliver(self, output: Any, targets: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
        """Copy the leaves of an answer into the judge's buffers where they fit; its structure and their forms."""
        structure, leaves = flatten(output)
        owners = list(self._owners(output))
        forms = [describe_leaf(leaf, owners) for leaf in leaves]
        for leaf, target, form in zip(leaves, targets, forms, strict=False):
            self._put(leaf, target, form)
        torch.cuda.synchronize()
        return structure, forms

    def _put(self, leaf: Any, target: dict[str, Any], form: dict[str, Any]) -> None:
        """Queue the copy of a leaf, if it fits."""
        if "strange" not in form and all(form[key] == target[key] for key in ("dtype", "shape")):
            _copy(self._tensor(target), leaf.detach())

    def _owners(self, output: Any) -> Iterator[Owner]:
        """Name and tensor of everything whose memory an answer must not share."""
        given = [x for x in _tensors_in(self.inputs) if isinstance(x, torch.Tensor)]
        yield from ((f"input {number}", x) for number, x in enumerate(given))
        yield from ((f"the module's {name}", x) for name, x in self._own_tensors())
        if self.held and self.held[-1] is not output:
            earlier = [x for x in flatten(self.held[-1])[1] if isinstance(x, torch.Tensor)]
            yield from (("the answer of the call before", x) for x in earlier)

    # ----------------------------------------------------------------------------------------------------- memory

    def first_forward(self, command: Command) -> Answer:
        """One forward whose own launches are looked at first: with `hardware`, one that is pruned there ends it."""
        hardware = command["hardware"]
        return recorder.first_forward(self._forward, None if hardware is None else Hardware.model_validate(hardware))

    def record(self, command: Command) -> Answer:
        """Record what one forward launches and calls."""
        inputs = [x for x in _tensors_in(self.inputs) if isinstance(x, torch.Tensor)]
        return recorder.record_forward(self._forward, given=[*inputs, *(x for _, x in self._own_tensors())])

    def release(self, command: Command) -> Answer:
        """Close buffers that the judge is about to free, and drop the inputs in them."""
        torch.cuda.synchronize()
        self.inputs, self.held = [], []
        if self.timing is not None:
            self.timing.close()
        for handle in command["handles"]:
            pointer = self.opened.pop(handle, None)
            if pointer is not None:
                close_handle(pointer)
        return {"ok": True}

    def _put_inputs(self, inputs: list[Any]) -> None:
        self.inputs = inputs

    def _forward(self) -> Any:
        with torch.set_grad_enabled(self.gradients):
            return self.model(*self.inputs)

    def _tensor(self, form: dict[str, Any]) -> torch.Tensor:
        if form["handle"] not in self.opened:
            self.opened[form["handle"]] = open_handle(form["handle"])
        return view(self.opened[form["handle"]], form)


def _nbytes(form: dict[str, Any]) -> int:
    return int(torch.Size(form["shape"]).numel()) * DTYPES[form["dtype"]].itemsize


def _pin_flags(precision: str) -> None:
    """Set PyTorch's TF32 switches by the precision policy."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision in TF32
