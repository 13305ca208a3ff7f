"""What this machine is and which GPUs this process may use, without torch and without a CUDA context.

No CUDA context is made, so a process that asks these questions can still fork.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from egg_graph.evaluator.device.nvml import Driver, query_driver
from egg_graph.evaluator.sandbox.isolation import isolation
from egg_graph.schema import BadInput, Environment


def gpu_present() -> bool:
    """Return whether the NVIDIA driver lists a GPU.

    Raises:
        InfrastructureError: if there is a driver, but nvidia-ml-py is missing.
    """
    return bool(query_driver().names)


def environment(*, use_gpu: bool = True) -> Environment:
    """Describe the machine, the versions and what confines candidates.

    Args:
        use_gpu: whether to name GPU, driver and CUDA version, where there are any.

    Raises:
        InfrastructureError: if there is a driver, but nvidia-ml-py is missing.
    """
    driver = query_driver() if use_gpu else Driver()
    isolated, not_isolated = isolation()
    return Environment(
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        gpu=driver.names[0] if driver.names else None,
        driver=driver.version if driver.names else None,
        cuda=driver.cuda if driver.names else None,
        torch=_version("torch"),
        triton=_version("triton"),
        python=platform.python_version(),
        isolation=isolated,
        not_isolated=not_isolated,
    )


def visible_gpus(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return UUIDs of the GPUs that CUDA would enumerate, in `CUDA_VISIBLE_DEVICES`' order; empty if there are none.

    An index in `CUDA_VISIBLE_DEVICES` counts in PCI bus order. Like CUDA, the list ends at the first entry that names
    no GPU.

    Args:
        environment: the environment variables; those of this process if None.

    Raises:
        InfrastructureError: if there is a driver, but nvidia-ml-py is missing.
    """
    listed = query_driver().uuids
    asked = (os.environ if environment is None else environment).get("CUDA_VISIBLE_DEVICES")
    if asked is None:
        return listed
    found: list[str] = []
    for entry in asked.split(","):
        gpu = _find_gpu(entry.strip(), listed)
        if gpu is None:
            break
        found.append(gpu)
    return tuple(found)


def resolve_gpu(gpu: int | str) -> str:
    """Return the UUID of a GPU that this process may use.

    Args:
        gpu: index among `visible_gpus()`, or a UUID (`GPU-…`, a unique beginning suffices; `MIG-…`).

    Raises:
        BadInput: if there is no such GPU; one line that names the GPUs there are.
        InfrastructureError: if there is a driver, but nvidia-ml-py is missing.
    """
    visible = visible_gpus()
    if isinstance(gpu, int):
        if 0 <= gpu < len(visible):
            return visible[gpu]
    elif (found := _find_gpu(gpu, visible)) is not None:
        return found
    raise BadInput(f"gpu: there is no {gpu!r} here; this process may use {', '.join(visible) or 'none'}")


def _find_gpu(entry: str, listed: Sequence[str]) -> str | None:
    if entry.startswith("MIG-"):
        return entry  # NVML lists the whole GPU; CUDA takes the slice by this name
    if entry.isdigit():
        return listed[int(entry)] if int(entry) < len(listed) else None
    matching = [uuid for uuid in listed if entry and uuid.startswith(entry)]
    return matching[0] if len(matching) == 1 else None


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
