"""Load a candidate's file, construct its `ModelNew`, and give and read its weights.

PyTorch's own function loads the weights, and they are read where PyTorch keeps them: a `state_dict` written by the
candidate could do work, or lie. Import this module before any candidate.
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
from egg_graph.evaluator.gate.written_kernels import watch_sources
from egg_graph.evaluator.host.custom_operators import see_through
from egg_graph.evaluator.wire.faults import KernelFault

ENTRY_POINT = "ModelNew"
MODULE_NAMES = ("kernels", "model_new", "fused", "triton_ops", "layers", "solution", "modules", "ops")
"""Names that a user might give to the module, so that its name does not tell who imports it."""
MAX_DEPTH = 64
"""Levels of modules within modules that are read."""
_load = torch.nn.Module.load_state_dict
_attributes = object.__getattribute__
_reference_names: dict[int, dict[str, str]] = {}
"""id of a model -> its own name of a tensor -> the reference's."""


def load_module(path: str | Path) -> ModuleType:
    """Import a candidate from its file. Exceptions of its top level pass through unchanged.

    Raises:
        KernelFault: `syntax_error`.
    """
    path = Path(path).resolve()
    name = _name_of(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    see_through(path)
    audit.watch(path)
    watch_sources()
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise KernelFault(
            "syntax_error", error.msg or "invalid syntax", f"line {error.lineno}", "Send a complete Python module."
        ) from error
    return module


def _name_of(path: Path) -> str:
    """Choose a module name by the source alone: Triton's cache may depend on it."""
    number = int.from_bytes(hashlib.sha256(path.read_bytes()).digest()[:4], "big")
    name = MODULE_NAMES[number % len(MODULE_NAMES)]
    return f"{name}_{number % 97}"


def construct(module: ModuleType, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return `ModelNew(*args, **kwargs)`.

    Raises:
        KernelFault: `missing_entry_point`, if there is no ModelNew, or what it returns is no `torch.nn.Module`.
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
    """Load the reference's parameters and buffers into the model, matched by name, else in order (see `_renamed`).

    Buffers that the reference lacks stay as the model made them, like any other attribute.

    Raises:
        KernelFault: `weights_mismatch`.
    """
    renamed = _renamed(model, state_dict)
    _reference_names[id(model)] = {own: name for name, own in renamed.items()}
    given = {renamed.get(name, name): value for name, value in state_dict.items()}
    try:
        _load(model, {**_own_buffers(model, given), **given}, strict=True)
    except RuntimeError as error:
        raise KernelFault(
            "weights_mismatch",
            " ".join(str(error).split()),
            ENTRY_POINT,
            "Give ModelNew the same parameter and buffer names and shapes as Model.",
        ) from error


def _own_buffers(model: Any, given: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The model's buffers that a `state_dict` holds and that are not given."""
    tensors = _tensors_within(model, "", MAX_DEPTH)
    return {
        name: x for name, x, kept in tensors if kept and name not in given and not isinstance(x, torch.nn.Parameter)
    }


def own_tensors(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield parameters and buffers by the reference's names for them, which are the model's own unless it has others.

    A shared one comes under every name.
    """
    names = reference_names(model)
    return ((names.get(name, name), tensor) for name, tensor, _ in _tensors_within(model, "", MAX_DEPTH))


def reference_names(model: Any) -> dict[str, str]:
    """Return the model's own name -> the reference's name, for those tensors of which they differ."""
    return _reference_names.get(id(model), {})


def _renamed(model: Any, state_dict: Mapping[str, Any]) -> dict[str, str]:
    """Match the reference's names that the model lacks with the model's own that the reference lacks.

    They are matched in order, and only if there are as many of them and each pair agrees in shape and kind of number.

    Returns:
        The reference's name -> the model's own.
    """
    own = {name: tensor for name, tensor, kept in _tensors_within(model, "", MAX_DEPTH) if kept}
    lacking = [name for name in state_dict if name not in own]
    further = [name for name in own if name not in state_dict]
    pairs = dict(zip(lacking, further, strict=False))
    fits = len(lacking) == len(further) and all(_alike(state_dict[name], own[its]) for name, its in pairs.items())
    return pairs if fits else {}


def _alike(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.shape == right.shape and left.is_floating_point() == right.is_floating_point()


def _tensors_within(module: Any, prefix: str, depth: int) -> Iterator[tuple[str, torch.Tensor, bool]]:
    """Yield name, tensor, and whether a `state_dict` holds it."""
    held = _attributes(module, "__dict__")
    left_out = held.get("_non_persistent_buffers_set", ())
    for kind in ("_parameters", "_buffers"):
        for name, tensor in held.get(kind, {}).items():
            if tensor is not None:
                yield prefix + name, tensor, kind == "_parameters" or name not in left_out
    for name, child in held.get("_modules", {}).items():
        if child is not None and depth:
            yield from _tensors_within(child, f"{prefix}{name}.", depth - 1)
