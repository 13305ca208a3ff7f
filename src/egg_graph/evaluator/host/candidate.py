"""Load a candidate's file, construct its `ModelNew`, and give and read its weights.

Weights are loaded by PyTorch's own function and read where PyTorch keeps them: a `state_dict` of the candidate's could
do work when asked, or tell what is not so. This module is imported before any candidate.
"""

import hashlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from egg_graph.evaluator.gate import audit
from egg_graph.evaluator.wire.faults import KernelFault

ENTRY_POINT = "ModelNew"
MODULE_NAMES = ("kernels", "model_new", "fused", "triton_ops", "layers", "solution", "modules", "ops")
DEEPEST = 64
"""Modules within modules."""
_load = torch.nn.Module.load_state_dict
_attributes = object.__getattribute__


def load_module(path: str | Path) -> ModuleType:
    """Import a candidate from its file. What its top level raises comes through unchanged.

    Raises:
        KernelFault: `syntax_error`.
    """
    path = Path(path).resolve()
    name = _name_of(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    audit.watch(path)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise KernelFault(
            "syntax_error", error.msg or "invalid syntax", f"line {error.lineno}", "Send a complete Python module."
        ) from error
    return module


def _name_of(path: Path) -> str:
    """A name that a user may have given to the module, so that it does not tell who imports it. The same wherever the
    same source is: Triton's cache may go by it."""
    number = int.from_bytes(hashlib.sha256(path.read_bytes()).digest()[:4], "big")
    name = MODULE_NAMES[number % len(MODULE_NAMES)]
    return f"{name}_{number % 97}"


def construct(module: ModuleType, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """`ModelNew(*args, **kwargs)`.

    Raises:
        KernelFault: `missing_entry_point`, also where what it makes is no module of PyTorch's.
    """
    entry = getattr(module, ENTRY_POINT, None)
    if entry is None:
        raise KernelFault(
            "missing_entry_point", f"the module defines no class {ENTRY_POINT}", cure=f"Define class {ENTRY_POINT}."
        )
    model = entry(*args, **kwargs)
    if not isinstance(model, torch.nn.Module):
        raise KernelFault(
            "missing_entry_point",
            f"{ENTRY_POINT} makes a {type(model).__name__}, which is no torch.nn.Module",
            cure=f"Derive class {ENTRY_POINT} from torch.nn.Module.",
        )
    return model


def load_weights(model: Any, state_dict: Mapping[str, Any]) -> None:
    """Give the model the reference's parameters and buffers.

    Raises:
        KernelFault: `weights_mismatch`.
    """
    try:
        _load(model, state_dict, strict=True)
    except RuntimeError as error:
        raise KernelFault(
            "weights_mismatch",
            " ".join(str(error).split()),
            ENTRY_POINT,
            "Give ModelNew the same parameter and buffer names and shapes as Model.",
        ) from error


def own_tensors(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and buffers, by the names that `state_dict` gives them; one that is shared comes under every name."""
    return _within(model, "", DEEPEST)


def _within(module: Any, prefix: str, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    held = _attributes(module, "__dict__")
    for kind in ("_parameters", "_buffers"):
        for name, tensor in held.get(kind, {}).items():
            if tensor is not None:
                yield prefix + name, tensor
    for name, child in held.get("_modules", {}).items():
        if child is not None and depth:
            yield from _within(child, f"{prefix}{name}.", depth - 1)
