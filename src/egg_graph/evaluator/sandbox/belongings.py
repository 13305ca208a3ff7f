"""What a candidate's process needs of the file system: libraries, compilers, devices, and nothing of the user's."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from glob import glob
from pathlib import Path

SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/sys", "/nix/store", "/gnu/store")
"""Programs and libraries that a distribution installs, and what the hardware is."""
SETTINGS = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/alternatives",
            "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/OpenCL", "/etc/nvidia",
            "/dev/urandom", "/dev/random")  # fmt: skip
"""What loaders and the C library read. `passwd` holds names, no passwords."""
MACHINE = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/devices", "/proc/driver", "/proc/filesystems",
           "/proc/loadavg", "/proc/modules", "/proc/stat", "/proc/sys", "/proc/uptime", "/proc/version")  # fmt: skip
"""What is shown of /proc where other processes would be in it."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/nvidia*", "/dev/kfd")
FOLDERS = ("CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "CONDA_PREFIX", "VIRTUAL_ENV")
"""Variables that name a folder of tools."""
TOOLS = ("cc", "gcc", "clang", "ptxas", "ncu", "compute-sanitizer")
LARGE_PACKAGES = ("torch", "triton", "numpy", "pydantic")
"""A folder on Python's path that holds one of these is a folder of packages."""


@dataclass(frozen=True)
class Belongings:
    """Paths by what may be done with them."""

    readable: tuple[str, ...]
    devices: tuple[str, ...]
    listable: tuple[str, ...]
    """Folders on Python's path that may hold more than packages: names alone, for a fresh Python to find ours."""


def belongings(*, own_proc: bool) -> Belongings:
    """What children of this process need. Ask once everything they use is imported.

    Args:
        own_proc: whether /proc shows them nothing but themselves.
    """
    readable = [
        *SYSTEM,
        *SETTINGS,
        *(("/proc",) if own_proc else MACHINE),
        *(sys.prefix, sys.base_prefix, sys.exec_prefix),
        *(os.environ[name] for name in FOLDERS if os.environ.get(name)),
        *filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)),
        *_tools(),
        *_packages(),
    ]
    devices = [path for pattern in DEVICES for path in glob(pattern)]
    if "/dev/kfd" in devices:
        devices.append("/dev/dri")
    listable = tuple(path for path in sys.path if path and os.path.isdir(path))
    return Belongings(_without_what_lies_within(filter(_grantable, readable)), tuple(devices), listable)


def _without_what_lies_within(paths: Iterable[str]) -> tuple[str, ...]:
    """The outermost of these paths, symbolic links resolved (but not /proc/self, which is another's later)."""
    kept: list[str] = []
    for path in sorted({path if path.startswith("/proc") else os.path.realpath(path) for path in paths}):
        if not any(path == outer or path.startswith(outer + "/") for outer in kept):
            kept.append(path)
    return tuple(kept)


def _grantable(path: str) -> bool:
    """There, and not everything: a prefix of `/` would grant all."""
    return os.path.isabs(path) and Path(path).resolve() not in (Path("/"), Path.home()) and os.path.exists(path)


def _tools() -> Iterator[str]:
    for tool in filter(
        None, (os.environ.get("CC"), os.environ.get("CXX"), os.environ.get("TRITON_PTXAS_PATH"), *TOOLS)
    ):
        if path := shutil.which(tool):
            for file in (Path(path), Path(path).resolve()):
                yield str(file.parents[1] if file.parent.name == "bin" else file)  # with the headers and libraries
    if path := os.environ.get("TRITON_LIBCUDA_PATH"):
        yield path


def _packages() -> Iterator[str]:
    """Folders of packages whole; of other folders (a project's own) only the packages that are imported already."""
    for folder in filter(os.path.isdir, filter(None, sys.path)):
        if any((Path(folder) / name).is_dir() for name in LARGE_PACKAGES):
            yield folder
    for name, module in list(sys.modules.items()):
        if "." not in name and (file := getattr(module, "__file__", None)):
            path = Path(file)
            yield str(path.parent if path.name == "__init__.py" else path)
