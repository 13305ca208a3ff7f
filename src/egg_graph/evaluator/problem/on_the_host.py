"""Make what a reference asks to lie on a GPU on the host instead, where every other reference makes it.

The judge itself moves inputs and module to the device that it judges on.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


def _names_gpu(value: Any) -> bool:
    return (isinstance(value, str) and value.split(":")[0] == "cuda") or (
        isinstance(value, torch.device) and value.type == "cuda"
    )


class OnTheHost(TorchFunctionMode):
    """Redirects `device="cuda"`, `.to("cuda")` and `.cuda()` to the CPU."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.Tensor.cuda:
            return args[0]
        if function is torch.device:
            return function(*args, **(kwargs or {}))
        args = tuple("cpu" if _names_gpu(value) else value for value in args)
        kwargs = {name: "cpu" if _names_gpu(value) else value for name, value in (kwargs or {}).items()}
        return function(*args, **kwargs)
