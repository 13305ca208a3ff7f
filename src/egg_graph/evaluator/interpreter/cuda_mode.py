"""Torch-function modes that make `device="cuda"`, `.cuda()`, `.is_cuda` and `.device` work without a GPU.

All tensors lie on the CPU (as fake tensors in a fake run) and claim to be on `cuda:0`.
"""

import sys
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from egg_graph.evaluator.interpreter.host_memory import REFUSED, HostMemory
from egg_graph.evaluator.interpreter.run_state import current_run, is_running
from egg_graph.evaluator.wire.faults import Unfakeable

CUDA = torch.device("cuda", 0)
_PROPERTIES = {torch.Tensor.is_cuda: True, torch.Tensor.is_cpu: False, torch.Tensor.device: CUDA}


def is_cuda(value: Any) -> bool:
    """Whether a value names a CUDA device."""
    return (isinstance(value, str) and value.startswith("cuda")) or (
        isinstance(value, torch.device) and value.type == "cuda"
    )


def _property(function: Any) -> Any:
    """Return the answer of the device property that `function` reads; None for any other function."""
    owner = getattr(function, "__self__", None)
    try:
        return _PROPERTIES.get(owner) if function.__name__ == "__get__" else None
    except (AttributeError, TypeError):
        return None


def _address(tensor: torch.Tensor) -> int:
    """Return a tensor's virtual address, which kernels may load from a table; the host finds nothing there."""
    run = current_run()
    return run.memory.pointer(tensor, "an address from data_ptr()", fake=run.fake)


class SimulatedCudaMode(TorchFunctionMode):
    """Redirects requests for a CUDA device to the CPU.

    Args:
        host: tracks which tensors lie on the host nevertheless; None in a fake run, where no value can be read.
    """

    def __init__(self, host: HostMemory | None = None) -> None:
        super().__init__()
        self.host = host

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = _property(function)
        if answer is not None:
            return answer
        asked = args, kwargs or {}
        kwargs = dict(asked[1])
        if function is torch.Tensor.pin_memory or (function is torch.Tensor.cuda and self.host is None):
            return args[0]
        if function is torch.Tensor.get_device:
            return 0
        if function is torch.device:  # stays a CUDA device: it is replaced where it is used
            return function(*args, **kwargs)
        if function is torch.Tensor.data_ptr and is_running():
            return _address(args[0])
        if function is torch.Tensor.cuda:
            function, args, kwargs, asked = torch.Tensor.to, (args[0], "cpu"), {}, ((args[0], CUDA), {})
        args = tuple("cpu" if is_cuda(a) else a for a in args)
        kwargs = {name: "cpu" if is_cuda(value) else value for name, value in kwargs.items()}
        if type(kwargs.get("device")) is int:
            kwargs["device"] = "cpu"  # an index means a GPU
        kwargs.pop("pin_memory", None)
        return function(*args, **kwargs) if self.host is None else self.host.call(function, args, kwargs, asked)


class FakeTensorCudaMode(SimulatedCudaMode):
    """The same for a fake run, whose tensors are fake CPU tensors.

    Fake CUDA tensors would not do: PyTorch's CPU build lacks the device guard that many of their methods take.
    While the mode is active, `FakeTensor.device` and `Module._apply` are replaced.

    Args:
        module_path: the candidate's file.
    """

    def __init__(self, module_path: str) -> None:
        super().__init__()
        self.module_path = module_path

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__name__", "") in REFUSED and isinstance(args[0], FakeTensor):
            raise Unfakeable(f"the candidate reads values by {function.__name__}")
        return super().__torch_function__(function, types, args, kwargs)

    def __enter__(self) -> "FakeTensorCudaMode":
        self._originals = FakeTensor.device, torch.nn.Module._apply
        FakeTensor.device = property(self._device)
        torch.nn.Module._apply = _apply
        super().__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        FakeTensor.device, torch.nn.Module._apply = self._originals
        super().__exit__(*exc)

    def _device(self, tensor: Any) -> torch.device:
        """Answer CUDA to the candidate's code and the true device to PyTorch's."""
        asker = sys._getframe(1).f_code.co_filename
        return CUDA if asker == self.module_path else self._originals[0].fget(tensor)


def _apply(self: torch.nn.Module, function: Any, recurse: bool = True) -> torch.nn.Module:
    """Replace `Module._apply`, on which `Module.to`, `.cuda` and `.half` rest: assign new tensors.

    The original swaps tensors in place, which fake tensors do not allow.
    """
    for child in self.children() if recurse else ():
        child._apply(function)
    for name, parameter in self._parameters.items():
        if parameter is not None:
            changed = function(parameter.detach())
            self._parameters[name] = torch.nn.Parameter(changed, requires_grad=parameter.requires_grad)
    for name, buffer in self._buffers.items():
        if buffer is not None:
            self._buffers[name] = function(buffer)
    return self
