"""The state of Python, PyTorch and Triton that a candidate must leave as it found it."""

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
"""Modules whose functions are compared, where they are loaded."""
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
"""Classes whose own attributes are compared, where their module is loaded."""
OURS = "egg_graph."
LAZY = frozenset({"torch.manual_seed", "torch.cuda.default_generators"})
"""Names that PyTorch itself exchanges when a part of it is first used."""
HOOKS = ("_global_forward_pre_hooks", "_global_forward_hooks", "_global_buffer_registration_hooks")
TOLD = "told."
"""Prefix of what is told and never judged: it changes for honest reasons too."""
SHOWN = 8
"""Names of replaced functions that are told."""

_first: dict[str, int] = {}
"""Identity of every function at the first fingerprint of this process."""
_hiding: set[str] = set()
"""Attributes of classes that hide an inherited one."""


def fingerprint() -> dict[str, str]:
    """Everything as short texts, by name. The first call in a process is what later ones are compared with.

    `replaced` names functions of libraries that are no longer those of the first call, empty then.
    """
    now = dict(_identities())
    if not _first:
        _first.update(now)
    replaced = sorted(name for name, identity in now.items() if _changed(name, identity))
    replaced += sorted(f"{name} (removed)" for name in _first.keys() - now.keys())
    return {**_flags(), **_threads(), "replaced": _short(replaced)}


def _changed(name: str, identity: int) -> bool:
    """A name that was not there before counts only where it hides an inherited one: modules are loaded lazily."""
    if name in _first:
        return identity != _first[name]
    return name in _hiding and name.rpartition(".")[0] in _first


def _short(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _identities() -> Iterator[tuple[str, int]]:
    for name, module in list(sys.modules.items()):
        if module is None or (name not in MODULES and not name.startswith(OURS)):
            continue
        for attribute, value in list(vars(module).items()):
            full = f"{name}.{attribute}"
            if full in LAZY or attribute.startswith("__"):
                continue
            if isinstance(value, type) and name.startswith(OURS) and value.__module__ == name:
                yield from _of_class(full, value)
            elif callable(value):
                yield full, _identity(value)
    for place in CLASSES:
        module_name, _, attribute = place.partition(":")
        found = getattr(sys.modules.get(module_name), attribute, None)
        if isinstance(found, type):
            yield from _of_class(f"{module_name}.{attribute}", found)


def _of_class(name: str, found: type) -> Iterator[tuple[str, int]]:
    yield name, id(found)
    for attribute, value in list(vars(found).items()):
        if not (callable(value) or isinstance(value, property | classmethod | staticmethod)):
            continue
        full = f"{name}.{attribute}"
        if any(attribute in vars(base) for base in found.__mro__[1:]):
            _hiding.add(full)
        yield full, _identity(value)


def _identity(value: Any) -> int:
    """Changes when a function is exchanged, and when its body is."""
    if isinstance(value, types.FunctionType):
        return hash((id(value), id(value.__code__), id(value.__defaults__), id(value.__kwdefaults__)))
    return id(value)


def _flags() -> dict[str, str]:
    """Switches of PyTorch, by name."""
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
    """What one forward must leave as it finds it: switches, and the seed (numbers may be drawn: that moves none)."""
    flags = {name: value for name, value in _flags().items() if name != f"{TOLD}random"}
    named = {name.removeprefix("flag.").removeprefix(TOLD): value for name, value in flags.items()}
    return named | {"seed of the random generator": str(torch.initial_seed())}


def changes(before: dict[str, str], after: dict[str, str]) -> tuple[str, ...]:
    """What differs between two of `settings`, in words."""
    return tuple(f"{name}: {before[name]} became {after[name]}" for name in before if before[name] != after[name])


def _threads() -> dict[str, str]:
    """Threads of Python by name (also those that `threading` does not know), and of the process by number."""
    known = {thread.ident: thread.name for thread in threading.enumerate()}
    names = sorted(known.get(ident, "unnamed") for ident in sys._current_frames())
    return {
        "threads": ", ".join(names),
        f"{TOLD}tasks": str(sum(1 for _ in Path("/proc/self/task").iterdir())),
    }
