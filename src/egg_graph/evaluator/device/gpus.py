"""Which GPUs this process may use, by name: the driver's UUIDs. Told without torch and without a CUDA context."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

from egg_graph.schema import BadInput


def visible_gpus(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """UUIDs of the GPUs that CUDA would enumerate, in `CUDA_VISIBLE_DEVICES`' order; empty where there is none.

    An index counts in the PCI bus order of the driver's management library. Like CUDA, the list ends at the first name
    that fits no GPU.
    """
    there = _uuids()
    asked = (os.environ if environment is None else environment).get("CUDA_VISIBLE_DEVICES")
    if asked is None:
        return there
    found: list[str] = []
    for word in asked.split(","):
        gpu = _named(word.strip(), there)
        if gpu is None:
            break
        found.append(gpu)
    return tuple(found)


def resolve_gpu(gpu: int | str) -> str:
    """The UUID of a GPU that this process may use.

    Args:
        gpu: its index among `visible_gpus()`, or its UUID (`GPU-…`, a unique beginning suffices; `MIG-…`).

    Raises:
        BadInput: if there is none of that name; one line that names those there are.
    """
    visible = visible_gpus()
    if isinstance(gpu, int):
        if 0 <= gpu < len(visible):
            return visible[gpu]
    elif (named := _named(gpu, visible)) is not None:
        return named
    raise BadInput(f"gpu: there is no {gpu!r} here; this process may use {', '.join(visible) or 'none'}")


def _named(word: str, there: tuple[str, ...]) -> str | None:
    if word.startswith("MIG-"):
        return word  # the management library lists the whole GPU; CUDA takes the slice by this name
    if word.isdigit():
        return there[int(word)] if int(word) < len(there) else None
    fitting = [uuid for uuid in there if word and uuid.startswith(word)]
    return fitting[0] if len(fitting) == 1 else None


def _uuids() -> tuple[str, ...]:
    """Of every GPU that the driver lists, in PCI bus order."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return ()
    if nvml.nvmlInit_v2() != 0:
        return ()
    try:
        count = ctypes.c_uint()
        if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
            return ()
        text, found = ctypes.create_string_buffer(96), []
        for index in range(count.value):
            handle = ctypes.c_void_p()
            if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0:
                nvml.nvmlDeviceGetUUID(handle, text, len(text))
                found.append(text.value.decode())
        return tuple(found)
    finally:
        nvml.nvmlShutdown()
