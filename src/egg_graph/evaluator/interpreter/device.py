"""A pretended GPU: `device="cuda"`, `.cuda()`, `.is_cuda` and `.device` work on a machine that has none.

In a real run the tensors live on the CPU and claim to be on `cuda:0`; in a fake run they are fake CUDA tensors.
"""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

CUDA = torch.device("cuda", 0)
_PROPERTIES = {torch.Tensor.is_cuda: True, torch.Tensor.is_cpu: False, torch.Tensor.device: CUDA}


def is_cuda(value: Any) -> bool:
    """Whether a value names a CUDA device."""
    return (isinstance(value, str) and value.startswith("cuda")) or (
        isinstance(value, torch.device) and value.type == "cuda"
    )


def _property(function: Any) -> Any:
    """The tensor property that `function` reads, else None."""
    owner = getattr(function, "__self__", None)
    try:
        return _PROPERTIES.get(owner) if function.__name__ == "__get__" else None
    except (AttributeError, TypeError):
        return None


class PretendCuda(TorchFunctionMode):
    """Redirect requests for a CUDA device of a real run to the CPU."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = _property(function)
        if answer is not None:
            return answer
        kwargs = dict(kwargs or {})
        if function is torch.Tensor.cuda or function is torch.Tensor.pin_memory:
            return args[0]
        if function is torch.Tensor.get_device:
            return 0
        args = tuple("cpu" if is_cuda(a) else a for a in args)
        kwargs = {name: "cpu" if is_cuda(value) else value for name, value in kwargs.items()}
        kwargs.pop("pin_memory", None)
        return function(*args, **kwargs)


RANDOM_FILLS = {
    getattr(torch.Tensor, name)
    for name in ("uniform_", "normal_", "log_normal_", "exponential_", "bernoulli_", "random_", "geometric_", "cauchy_")
}
"""Change values alone; on fake CUDA tensors they need a CUDA build of PyTorch for nothing."""


class FakeCuda(TorchFunctionMode):
    """Carry out requests for a CUDA device on fake tensors, which PyTorch without CUDA refuses in part."""

    def __enter__(self) -> "FakeCuda":
        self._module_apply = torch.nn.Module._apply
        torch.nn.Module._apply = _apply  # type: ignore[method-assign]
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        torch.nn.Module._apply = self._module_apply  # type: ignore[method-assign]
        super().__exit__(*exc)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if function is torch.Tensor.cuda:
            return to_fake_cuda(args[0])
        if function in RANDOM_FILLS or getattr(function, "__module__", "") == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        if function is torch.Tensor.pin_memory:
            return args[0]
        if function is torch.Tensor.to and (any(map(is_cuda, args[1:])) or is_cuda(kwargs.get("device"))):
            moved = to_fake_cuda(args[0])
            rest = tuple(a for a in args[1:] if not is_cuda(a))
            kwargs.pop("device", None)
            return function(moved, *rest, **kwargs) if rest or kwargs.keys() - {"non_blocking", "copy"} else moved
        kwargs.pop("pin_memory", None)
        return function(*args, **kwargs)


def _apply(self: torch.nn.Module, function: Any, recurse: bool = True) -> torch.nn.Module:
    """`Module.to`, `.cuda`, `.half` without swapping tensors in place, which fake tensors do not allow."""
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


def to_fake_cuda(tensor: Any) -> Any:
    """A fake tensor on the pretended GPU with the same shape, strides and dtype; a parameter stays one."""
    if tensor.device.type == "cuda":
        return tensor
    moved = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=CUDA)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(moved, requires_grad=tensor.requires_grad)
    return moved
