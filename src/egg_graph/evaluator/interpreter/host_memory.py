"""Which tensors would lie in host memory on a machine with a GPU.

In truth every tensor lies there. But with a GPU, Python and NumPy could read only what a candidate made on the host or
copied to it, and each copy would cost time.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from egg_graph.evaluator.interpreter.run_state import in_kernel
from egg_graph.schema import Finding

TO_NUMPY = "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
REFUSED = {
    "numpy": TO_NUMPY,
    "__array__": TO_NUMPY,
    **{name: f"{name} is only implemented on CPU tensors" for name in ("apply_", "map_", "map2_")},
}
"""Method that a CUDA tensor does not have -> PyTorch's message."""
READS = frozenset(
    {"tolist", "item", "numpy", "__float__", "__int__", "__bool__", "__index__", "__complex__", "_local_scalar_dense"}
    | {"__repr__", "__format__", "__dlpack__", "__reduce_ex__"}
)
"""Methods that give a tensor's values to Python."""
SHARES = frozenset({"asarray", "as_tensor", "frombuffer"})
"""Functions that make a tensor on memory that Python or NumPy owns."""


class HostMemory:
    """Tracks which tensors lie on the host, and counts the numbers that a forward reads back to it.

    A tensor that is not tracked lies on the GPU; so do all that the constructor of `ModelNew` makes.
    """

    def __init__(self) -> None:
        self._on_host: Any = WeakIdKeyDictionary()
        self._watching = False
        self.read: Counter[str] = Counter()
        """Function -> numbers that it has read back in this forward."""

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return tensor in self._on_host

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Track a forward: results on the host are remembered and reads are counted."""
        self.read, self._watching = Counter(), True
        try:
            yield
        finally:
            self._watching = False

    def move_to_gpu(self, tensors: Iterable[torch.Tensor]) -> None:
        """Move parameters and buffers to the GPU: a tensor on memory of Python or NumPy gets memory of its own."""
        for tensor in tensors:
            if self._on_host.pop(tensor, None):
                tensor.data = tensor.detach().clone()

    def findings(self, output: Any) -> list[Finding]:
        """Report the leaves of an answer that lie on the host."""
        return [
            Finding(
                kind="wrong_device",
                message="the answer lies on the host where the reference's is on the GPU",
                where=f"output{keystr(path)}",
                cure="allocate the output on the device of the inputs (torch.empty_like)",
            )
            for path, leaf in tree_flatten_with_path(output)[0]
            if isinstance(leaf, torch.Tensor) and leaf in self._on_host
        ]

    def call(self, function: Any, args: Any, kwargs: Any, asked: tuple[Any, Any]) -> Any:
        """Call `function(*args, **kwargs)` and track where its result lies.

        Args:
            function: a function of PyTorch that the candidate calls.
            args: positional arguments, with CUDA devices replaced by the CPU.
            kwargs: keyword arguments, likewise.
            asked: positional and keyword arguments as the candidate gave them.

        Raises:
            TypeError: if a CUDA tensor would not have this method.
        """
        if in_kernel():  # the interpreter itself calls
            return function(*args, **kwargs)
        name = str(getattr(function, "__name__", "")).split(".")[0]
        operands = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        away = [x for x in operands if x not in self._on_host]
        host = self._asked_for(name, *asked)
        if self._watching and away and operands[0] is away[0]:
            self._count_read(name, away[0], kwargs)
        result = function(*args, **kwargs)
        target = kwargs.get("out", operands[0] if operands and (name.endswith("_") or name == "__setitem__") else None)
        if self._watching and away and isinstance(target, torch.Tensor) and target in self._on_host:
            self.read[name] += max(x.numel() for x in away)
        return self._placed(name, operands, away, result, host)

    def _count_read(self, name: str, tensor: torch.Tensor, kwargs: Any) -> None:
        """Count the numbers that a method of a GPU tensor gives to Python.

        Raises:
            TypeError: if a CUDA tensor does not have the method.
        """
        if name in REFUSED and not kwargs.get("force"):
            raise TypeError(REFUSED[name])
        if name in READS:
            self.read[name] += tensor.numel()

    def _asked_for(self, name: str, args: Any, kwargs: Any) -> bool | None:
        """Whether a call asks for the host (True), for the GPU (False) or for neither (None)."""
        if name == "cpu":
            return True
        for value in (*args, kwargs.get("device")):
            if isinstance(value, torch.Tensor) and name == "to" and value is not args[0]:
                return value in self._on_host
            if isinstance(value, str | torch.device) and str(value).split(":")[0] in ("cpu", "cuda"):
                return str(value).startswith("cpu")
        return False if type(kwargs.get("device")) is int else None

    def _placed(
        self, name: str, operands: list[torch.Tensor], away: list[torch.Tensor], result: Any, host: bool | None
    ) -> Any:
        """Remember where a result lies, and return it. A copy between host and GPU gets memory of its own.

        Args:
            name: of the function.
            operands: all its tensors.
            away: those on the GPU.
            result: what it returned.
            host: where the call asked the result to be, as `_asked_for` says.
        """
        if not isinstance(result, torch.Tensor | list | tuple):
            return result
        copies = operands and host is not None and not name.startswith("new_") and not name.endswith("_like")
        if copies and isinstance(result, torch.Tensor):
            was_away = bool(away) and operands[0] is away[0]
            if host and was_away and self._watching:
                self.read[name] += result.numel()
            if host == was_away and _same_memory(result, operands[0]):
                result = torch.ops.aten._to_copy(result)
        on_host = not away if host is None else host
        if on_host and (self._watching or name in SHARES):
            for x in [result] if isinstance(result, torch.Tensor) else result:
                if isinstance(x, torch.Tensor):
                    self._on_host[x] = True
        return result


def _same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors share a storage."""
    if a.layout is not torch.strided or b.layout is not torch.strided:
        return a is b
    return bool(a.untyped_storage()._cdata == b.untyped_storage()._cdata)
