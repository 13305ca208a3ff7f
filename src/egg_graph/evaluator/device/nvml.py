"""NVIDIA's management library (NVML) through nvidia-ml-py (`pynvml`), without torch and without a CUDA context.

`pynvml` is imported only when a question is asked. A host without a GPU does not need it; a host with a GPU does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from egg_graph.schema import InfrastructureError

LIBRARY = "libnvidia-ml.so.1"


@dataclass(frozen=True)
class Driver:
    """The NVIDIA driver of this host and the GPUs that it lists, in PCI bus order."""

    names: tuple[str, ...] = ()
    """Product name of each GPU."""
    uuids: tuple[str, ...] = ()
    """UUID of each GPU, as `GPU-…`."""
    version: str | None = None
    """Driver version, as `570.86.15`."""
    cuda: str | None = None
    """Newest CUDA version that the driver supports, as `12.8`."""


@contextmanager
def open_nvml() -> Iterator[ModuleType | None]:
    """Yield `pynvml`, initialised for the length of the block; None where there is no working NVIDIA driver.

    Raises:
        InfrastructureError: if a driver is installed and nvidia-ml-py is not: the answer "no GPU" would be a guess.
    """
    try:
        import pynvml
    except ImportError:
        if _driver_installed():
            raise InfrastructureError(
                "an NVIDIA driver is installed here, but the package that asks it for its GPUs is missing: "
                "pip install nvidia-ml-py"
            ) from None
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def query_driver() -> Driver:
    """Ask the driver for its versions and GPUs; an empty `Driver` where there is none.

    Raises:
        InfrastructureError: as `open_nvml`.
    """
    with open_nvml() as nvml:
        if nvml is None:
            return Driver()
        handles = _handles(nvml)
        number = _answer(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2)
        return Driver(
            names=tuple(_answer(nvml, nvml.nvmlDeviceGetName, handle) or "" for handle in handles),
            uuids=tuple(_answer(nvml, nvml.nvmlDeviceGetUUID, handle) or "" for handle in handles),
            version=_answer(nvml, nvml.nvmlSystemGetDriverVersion),
            cuda=None if number is None else f"{number // 1000}.{number % 1000 // 10}",
        )


def _handles(nvml: ModuleType) -> list[Any]:
    """Handles of the GPUs that this process may use, in PCI bus order."""
    count = _answer(nvml, nvml.nvmlDeviceGetCount) or 0
    handles = [_answer(nvml, nvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
    return [handle for handle in handles if handle is not None]


def _answer(nvml: ModuleType, question: Callable[..., Any], *arguments: Any) -> Any:
    """Return NVML's answer, None where it refuses one."""
    try:
        return question(*arguments)
    except nvml.NVMLError:
        return None


def _driver_installed() -> bool:
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True
