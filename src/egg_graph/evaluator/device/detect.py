"""What this machine is, told without importing torch: doctors and records of evidence ask it from any process."""

from __future__ import annotations

import ctypes
import os
import platform
from importlib.metadata import PackageNotFoundError, version

from egg_graph.evaluator.sandbox.isolation import isolation
from egg_graph.schema import Environment


def gpu_present() -> bool:
    """Whether the NVIDIA driver lists a GPU. No CUDA context is made, so forking stays safe."""
    return bool(_nvml()[0])


def environment(*, use_gpu: bool = True) -> Environment:
    """Machine, versions and what confines candidates; GPU, driver and CUDA where there is one and it is used."""
    names, driver, cuda = _nvml() if use_gpu else ([], None, None)
    isolated, not_isolated = isolation()
    return Environment(
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        gpu=names[0] if names else None,
        driver=driver if names else None,
        cuda=cuda if names else None,
        torch=_version("torch"),
        triton=_version("triton"),
        python=platform.python_version(),
        isolation=isolated,
        not_isolated=not_isolated,
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _nvml() -> tuple[list[str], str | None, str | None]:
    """GPU names, driver version and the CUDA version the driver supports, from the management library."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return [], None, None
    if nvml.nvmlInit_v2() != 0:
        return [], None, None
    try:
        count = ctypes.c_uint()
        if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
            return [], None, None
        text = ctypes.create_string_buffer(96)
        names = []
        for index in range(count.value):
            handle = ctypes.c_void_p()
            if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0:
                nvml.nvmlDeviceGetName(handle, text, len(text))
                names.append(text.value.decode())
        driver = text.value.decode() if nvml.nvmlSystemGetDriverVersion(text, len(text)) == 0 else None
        number = ctypes.c_int()
        known = nvml.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(number)) == 0
        cuda = f"{number.value // 1000}.{number.value % 1000 // 10}" if known else None
        return names, driver, cuda
    finally:
        nvml.nvmlShutdown()
