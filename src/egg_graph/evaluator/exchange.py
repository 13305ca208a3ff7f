"""Values between processes: raw bytes and a JSON manifest, never a pickle.

A child's bytes are read as numbers and nothing else, so that what a candidate writes can be wrong but not harmful.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
        *(torch.float8_e4m3fn, torch.float8_e5m2),
    )
}
SCALARS = (bool, int, float, str, type(None))


class ExchangeError(ValueError):
    """The bytes or the manifest of the other process make no sense."""


def dtype_name(tensor: torch.Tensor) -> str:
    """`float32`, as manifests and messages write it."""
    return str(tensor.dtype).removeprefix("torch.")


def describe(value: Any) -> str:
    """`float32[16, 1024]` for a tensor, `int 3` for anything else."""
    if isinstance(value, torch.Tensor):
        return f"{dtype_name(value)}[{', '.join(str(n) for n in value.shape)}]"
    return f"{type(value).__name__} {value!r}"[:80]


def flatten(value: Any) -> tuple[str, list[Any]]:
    """Structure of a forward's answer and its leaves: `("(*, {a: *})", [first, second])`.

    A list counts as a tuple, and so does a named tuple: code that replaces a module may use either.
    """
    leaves: list[Any] = []

    def walk(node: Any) -> str:
        if isinstance(node, list | tuple):
            return "(" + ", ".join(walk(item) for item in node) + ")"
        if isinstance(node, dict):
            return "{" + ", ".join(f"{key}: {walk(node[key])}" for key in sorted(node, key=str)) + "}"
        leaves.append(node)
        return "*"

    return walk(value), leaves


def save(folder: Path, name: str, values: Sequence[Any], *, structure: str = "") -> None:
    """Write values as `name.bin` and `name.json`; tensors keep dtype, shape and (where dense) strides."""
    entries: list[dict[str, Any]] = []
    with (folder / f"{name}.bin").open("wb") as file:
        for value in values:
            if isinstance(value, torch.Tensor):
                entries.append(_save_tensor(file, value))
            elif isinstance(value, SCALARS):
                entries.append({"scalar": value})
            else:
                raise ExchangeError(f"{name}: a {type(value).__name__} cannot be passed between processes")
    (folder / f"{name}.json").write_text(json.dumps({"structure": structure, "values": entries}))


def load(folder: Path, name: str) -> tuple[str, list[Any]]:
    """Read back what `save` wrote: structure and values. Tensors are fresh and writable.

    Raises:
        ExchangeError: if manifest or bytes are not what `save` writes.
    """
    try:
        manifest = json.loads((folder / f"{name}.json").read_text())
        raw = np.fromfile(folder / f"{name}.bin", dtype=np.uint8)
        values, at = [], 0
        for entry in manifest["values"]:
            if "scalar" in entry:
                values.append(entry["scalar"])
                continue
            tensor, at = _load_tensor(entry, raw, at)
            values.append(tensor)
        return str(manifest["structure"]), values
    except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ExchangeError(f"{name}: {error}") from error


def as_bytes(tensor: torch.Tensor) -> bytes:
    """The elements' bytes in logical order, for bytewise comparison."""
    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _dense(tensor: torch.Tensor) -> bool:
    return bool(torch.ops.aten.is_non_overlapping_and_dense(tensor)) and not tensor.is_conj() and not tensor.is_neg()


def _save_tensor(file: Any, value: torch.Tensor) -> dict[str, Any]:
    tensor = value.detach().to("cpu")
    if not _dense(tensor):
        tensor = tensor.contiguous()
    flat = tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())  # memory order, whatever the strides
    if flat.numel():
        file.write(flat.clone().view(torch.uint8).numpy().tobytes())
    return {"dtype": dtype_name(tensor), "shape": list(tensor.shape), "stride": list(tensor.stride())}


def _load_tensor(entry: dict[str, Any], raw: np.ndarray, at: int) -> tuple[torch.Tensor, int]:
    dtype, shape, stride = DTYPES[entry["dtype"]], entry["shape"], entry["stride"]
    if not all(type(n) is int and n >= 0 for n in (*shape, *stride)) or len(shape) != len(stride):
        raise ExchangeError("shape or stride is not a list of whole numbers")
    count = math.prod(shape)
    end = at + count * dtype.itemsize
    if end > raw.size or (count and sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) >= count):
        raise ExchangeError("fewer bytes than the manifest says")
    flat = torch.from_numpy(raw[at:end].copy()).view(dtype) if count else torch.empty(0, dtype=dtype)
    return flat.as_strided(shape, stride), end
