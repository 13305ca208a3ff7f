"""Fingerprints of the state of Python, PyTorch and Triton, which a candidate must leave as it found it."""

from __future__ import annotations

import hashlib
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

MODULES = (
    *("builtins", "time", "json", "json.encoder", "json.decoder", "socket", "os", "math", "statistics", "gc", "signal"),
    *("numpy", "torch", "torch._C", "torch._C._nn", "torch.cuda", "torch.nn.functional", "torch.linalg"),
    *("torch.testing", "torch.testing._comparison", "torch.utils._pytree", "torch.random", "torch.cuda.random"),
    *("triton", "triton.language", "triton.testing", "triton.runtime.jit", "triton.compiler.compiler"),
)
"""Modules whose functions are compared, if loaded."""
CLASSES = (
    *("torch:Tensor", "torch.nn:Module", "torch.nn:Parameter", "torch.cuda:Event", "torch.cuda:Stream"),
    *(
        "torch.cuda:CUDAGraph",
        "torch:Generator",
        "socket:socket",
        "json.encoder:JSONEncoder",
        "json.decoder:JSONDecoder",
    ),
    *("triton.runtime.jit:JITFunction", "triton.runtime.jit:KernelInterface", "triton.runtime.autotuner:Autotuner"),
    *("triton.compiler.compiler:CompiledKernel", "torch.utils._python_dispatch:TorchDispatchMode"),
)
"""Classes whose own attributes are compared, if their module is loaded."""
OURS = "egg_graph."
"""Prefix of this library's modules, all of which are compared."""
LAZY = frozenset({"torch.manual_seed", "torch.cuda.default_generators"})
"""Names that PyTorch itself replaces when it first uses a part of itself."""
HOOKS = ("_global_forward_pre_hooks", "_global_forward_hooks", "_global_buffer_registration_hooks")
"""PyTorch's tables of hooks that run for every module."""
TOLD = "told."
"""Prefix of entries that are reported but never judged, because honest code changes them too."""
SHOWN = 8
"""Names of replaced functions that a report lists."""

_first: dict[str, int] = {}
"""Identity of every function at this process's first fingerprint, by dotted name."""
_overrides: set[str] = set()
"""Dotted names of class attributes that override an inherited one."""


def fingerprint() -> dict[str, str]:
    """Return the state as short texts by name.

    The entry `replaced` lists library functions that differ from those at the first call in this process; the first
    call leaves it empty.
    """
    now = dict(_identities())
    if not _first:
        _first.update(now)
    replaced = sorted(name for name, identity in now.items() if _changed(name, identity))
    replaced += sorted(f"{name} (removed)" for name in _first.keys() - now.keys())
    return {**_flags(), **_threads(), "replaced": _shortened(replaced)}


def _changed(name: str, identity: int) -> bool:
    """Whether a function was replaced. Modules load lazily, so a new name counts only if it overrides a method."""
    if name in _first:
        return identity != _first[name]
    return name in _overrides and name.rpartition(".")[0] in _first


def _shortened(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _identities() -> Iterator[tuple[str, int]]:
    for name, module in sys.modules.copy().items():
        if module is None or (name not in MODULES and not name.startswith(OURS)):
            continue
        for attribute, value in vars(module).copy().items():
            full = f"{name}.{attribute}"
            if full in LAZY or attribute.startswith("__"):
                continue
            if isinstance(value, type) and name.startswith(OURS) and value.__module__ == name:
                yield from _class_identities(full, value)
            elif callable(value):
                yield full, _identity(value)
    for place in CLASSES:
        module_name, _, attribute = place.partition(":")
        found = getattr(sys.modules.get(module_name), attribute, None)
        if isinstance(found, type):
            yield from _class_identities(f"{module_name}.{attribute}", found)


def _class_identities(name: str, found: type) -> Iterator[tuple[str, int]]:
    yield name, id(found)
    for attribute, value in list(vars(found).items()):
        if not (callable(value) or isinstance(value, property | classmethod | staticmethod)):
            continue
        full = f"{name}.{attribute}"
        if any(attribute in vars(base) for base in found.__mro__[1:]):
            _overrides.add(full)
        yield full, _identity(value)


def _identity(value: Any) -> int:
    """Return a number that changes when a function, or its code or defaults, are replaced."""
    if isinstance(value, types.FunctionType):
        return hash((id(value), id(value.__code__), id(value.__defaults__), id(value.__kwdefaults__)))
    return id(value)


def _flags() -> dict[str, str]:
    """Return PyTorch's switches by name."""
    from torch.nn.modules import module as modules

    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    values: dict[str, object] = {
        "cuda.matmul.allow_tf32": cuda.matmul.allow_tf32,
        "cuda.matmul.fp16_reduction": cuda.matmul.allow_fp16_reduced_precision_reduction,
        "cuda.matmul.bf16_reduction": cuda.matmul.allow_bf16_reduced_precision_reduction,
        "cuda.sdp": (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled()),
        "cudnn": (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "default_dtype": torch.get_default_dtype(),
        "default_device": torch.get_default_device(),
        "autocast": torch.is_autocast_enabled("cuda"),
        "inference_mode": torch.is_inference_mode_enabled(),
        "dispatch_modes": torch._C._len_torch_dispatch_stack(),
        "function_modes": torch._C._len_torch_function_stack(),
        "module_hooks": tuple(len(getattr(modules, name)) for name in HOOKS),
        "anomaly_detection": torch.is_anomaly_enabled(),
        "tracing": (sys.gettrace() is not None, sys.getprofile() is not None),
    }
    told: dict[str, object] = {
        "grad": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
        "random": hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest()[:16],
    }
    if torch.cuda.is_initialized():
        values["stream"] = torch.cuda.current_stream() == torch.cuda.default_stream()
        values["device"] = torch.cuda.current_device()
    return {f"flag.{name}": str(value) for name, value in values.items()} | {
        f"{TOLD}{name}": str(value) for name, value in told.items()
    }


def settings() -> dict[str, str]:
    """Return what one forward must not change: PyTorch's switches, and the random seed (drawing numbers keeps it)."""
    flags = {name: value for name, value in _flags().items() if name != f"{TOLD}random"}
    named = {name.removeprefix("flag.").removeprefix(TOLD): value for name, value in flags.items()}
    return named | {"seed of the random generator": str(torch.initial_seed())}


def changes(before: dict[str, str], after: dict[str, str]) -> tuple[str, ...]:
    """Return what differs between two results of `settings`, as `name: old became new`."""
    return tuple(f"{name}: {before[name]} became {after[name]}" for name in before if before[name] != after[name])


def _threads() -> dict[str, str]:
    """Return the names of Python's threads (`unnamed` where `threading` knows none) and the number of tasks."""
    known = {thread.ident: thread.name for thread in threading.enumerate()}
    names = sorted(known.get(ident, "unnamed") for ident in sys._current_frames())
    return {
        "threads": ", ".join(names),
        f"{TOLD}tasks": str(sum(1 for _ in Path("/proc/self/task").iterdir())),
    }
