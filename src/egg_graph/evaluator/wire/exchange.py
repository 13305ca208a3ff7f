"""Pass values between processes as raw bytes and a JSON manifest, never as a pickle.

A child's bytes are read as numbers and nothing else, so that what a candidate writes can be wrong, but not harmful.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from egg_graph.evaluator.wire.untrusted import new_file, open_file, parse

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
        *(torch.float8_e4m3fn, torch.float8_e5m2),
    )
}
SCALARS = (bool, int, float, str, type(None))
"""Types that JSON holds as they are."""


class ExchangeError(ValueError):
    """A value cannot be passed, or what the other process wrote cannot be read."""


def dtype_name(tensor: torch.Tensor) -> str:
    """Return a tensor's dtype as `float32`."""
    return str(tensor.dtype).removeprefix("torch.")


def describe(value: Any) -> str:
    """Describe a value for a message: `float32[16, 1024]` for a tensor, `int 3` for anything else."""
    if isinstance(value, torch.Tensor):
        return f"{dtype_name(value)}[{', '.join(str(n) for n in value.shape)}]"
    return f"{type(value).__name__} {value!r}"[:80]


def flatten(value: Any) -> tuple[str, list[Any]]:
    """Return the structure of a forward's output and its leaves: `("(*, {a: *})", [first, second])`.

    Lists and named tuples count as tuples, because code that replaces a module may use either.
    """
    leaves: list[Any] = []
    return _structure(value, leaves), leaves


def _structure(node: Any, leaves: list[Any]) -> str:
    """Return the structure of a value, and append its leaves in order.

    A function within `flatten` that calls itself would keep the leaves, gigabytes on a GPU, until Python's garbage
    collection runs.
    """
    if isinstance(node, list | tuple):
        return "(" + ", ".join(_structure(item, leaves) for item in node) + ")"
    if isinstance(node, dict):
        return "{" + ", ".join(f"{key}: {_structure(node[key], leaves)}" for key in sorted(node, key=str)) + "}"
    leaves.append(node)
    return "*"


def save(folder: Path, name: str, values: Sequence[Any], *, structure: str = "") -> None:
    """Write values as `name.bin` and `name.json`. Tensors keep dtype, shape and, if dense, strides.

    Raises:
        ExchangeError: if a value is neither a tensor, a scalar, nor a list, tuple or dict of these.
    """
    with new_file(folder / f"{name}.bin") as file:
        entries = [encode(value, lambda tensor: _save_tensor(file, tensor)) for value in values]
    with new_file(folder / f"{name}.json") as file:
        file.write(json.dumps({"structure": structure, "values": entries}).encode())


def load(folder: Path, name: str) -> tuple[str, list[Any]]:
    """Read what `save` wrote: structure and values. Tensors are fresh and writable.

    Raises:
        ExchangeError: if manifest or bytes are not what `save` writes.
    """
    try:
        with open_file(folder / f"{name}.json") as told, open_file(folder / f"{name}.bin") as file:
            manifest, raw = parse(told.read()), np.fromfile(file, dtype=np.uint8)
        return str(manifest["structure"]), [
            decode(entry, lambda tensor: _load_tensor(tensor, raw)) for entry in manifest["values"]
        ]
    except (OSError, KeyError, TypeError, ValueError, RuntimeError, AttributeError, RecursionError) as error:
        raise ExchangeError(f"{name}: {error}") from error


def encode(value: Any, tensor: Callable[[torch.Tensor], dict[str, Any]]) -> Any:
    """Write a value as JSON; `tensor` returns what stands for a tensor.

    Raises:
        ExchangeError: if a value has no JSON form.
    """
    if isinstance(value, torch.Tensor):
        return {"tensor": tensor(value)}
    if isinstance(value, SCALARS):
        return value
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, list):
        return {"list": [encode(item, tensor) for item in value]}
    if isinstance(value, tuple):
        return {"tuple": [encode(item, tensor) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encode(item, tensor) for key, item in value.items()}}
    raise ExchangeError(f"a {type(value).__name__} cannot be passed between processes")


def decode(entry: Any, tensor: Callable[[dict[str, Any]], Any]) -> Any:
    """Read the value that `encode` wrote; `tensor` makes a tensor of what stands for it."""
    if not isinstance(entry, dict):
        return entry
    ((kind, content),) = entry.items()
    if kind == "tensor":
        return tensor(content)
    if kind == "dtype":
        return DTYPES[content]
    if kind == "dict":
        return {key: decode(item, tensor) for key, item in content.items()}
    items = [decode(item, tensor) for item in content]
    return tuple(items) if kind == "tuple" else items


def inline(tensor: torch.Tensor) -> dict[str, Any]:
    """Write a small tensor within JSON (arguments of a constructor)."""
    return {"dtype": dtype_name(tensor), "shape": list(tensor.shape), "bytes": as_bytes(tensor).hex()}


def inline_tensor(entry: dict[str, Any]) -> torch.Tensor:
    """Read the tensor that `inline` wrote."""
    raw = bytearray.fromhex(entry["bytes"])
    dtype = DTYPES[entry["dtype"]]
    return (
        torch.frombuffer(raw, dtype=dtype).reshape(entry["shape"]) if raw else torch.empty(entry["shape"], dtype=dtype)
    )


def form(tensor: torch.Tensor) -> dict[str, Any]:
    """Write dtype, shape and strides of a tensor, without its elements."""
    return {"dtype": dtype_name(tensor), "shape": list(tensor.shape), "stride": list(tensor.stride())}


def as_bytes(tensor: torch.Tensor) -> bytes:
    """Return the elements' bytes in logical order, for bytewise comparison."""
    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _dense(tensor: torch.Tensor) -> bool:
    return bool(torch.ops.aten.is_non_overlapping_and_dense(tensor)) and not tensor.is_conj() and not tensor.is_neg()


def _save_tensor(file: BinaryIO, value: torch.Tensor) -> dict[str, Any]:
    tensor = value.detach().to("cpu")
    if not _dense(tensor):
        tensor = tensor.contiguous()
    at = file.tell()
    flat = tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())  # memory order, whatever the strides
    if flat.numel():
        file.write(memoryview(flat.view(torch.uint8).numpy()))  # gigabytes are not copied again to be written
    return {"dtype": dtype_name(tensor), "shape": list(tensor.shape), "stride": list(tensor.stride()), "at": at}


def _load_tensor(entry: dict[str, Any], raw: np.ndarray) -> torch.Tensor:
    dtype, shape, stride, at = DTYPES[entry["dtype"]], entry["shape"], entry["stride"], entry["at"]
    if not all(type(n) is int and n >= 0 for n in (*shape, *stride, at)) or len(shape) != len(stride):
        raise ExchangeError("shape, stride or place is not a list of whole numbers")
    count = math.prod(shape)
    end = at + count * dtype.itemsize
    if end > raw.size or (count and sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) >= count):
        raise ExchangeError("fewer bytes than the manifest says")
    flat = torch.from_numpy(raw[at:end].copy()).view(dtype) if count else torch.empty(0, dtype=dtype)
    return flat.as_strided(shape, stride)
