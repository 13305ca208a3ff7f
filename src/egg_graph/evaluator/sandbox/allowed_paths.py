"""The paths that a candidate's process may open: libraries, compilers and devices, and nothing of the user's."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from glob import glob
from pathlib import Path

SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/sys", "/nix/store", "/gnu/store")
"""Programs and libraries that a distribution installs, and what describes the hardware."""
SETTINGS = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/alternatives",
            "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/OpenCL", "/etc/nvidia",
            "/dev/urandom", "/dev/random")  # fmt: skip
"""Files that the loader and the C library read. `passwd` holds names, no passwords."""
MACHINE = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/devices", "/proc/driver", "/proc/filesystems",
           "/proc/loadavg", "/proc/modules", "/proc/stat", "/proc/sys", "/proc/uptime", "/proc/version")  # fmt: skip
"""The part of /proc that is readable where the whole of it would show other processes."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/nvidia*", "/dev/kfd")
"""Device files, as glob patterns."""
FOLDERS = ("CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "CONDA_PREFIX", "VIRTUAL_ENV")
"""Environment variables that name a folder of tools."""
TOOLS = ("cc", "gcc", "clang", "ptxas", "ncu", "compute-sanitizer")
"""Programs that are looked up on the PATH."""
LARGE_PACKAGES = ("torch", "triton", "numpy", "pydantic")
"""A folder on Python's path that holds one of these counts as a folder of packages."""


@dataclass(frozen=True)
class AllowedPaths:
    """Paths by what a candidate's process may do with them."""

    readable: tuple[str, ...]
    """Files and folders to read, and to run programs from."""
    devices: tuple[str, ...]
    """Device files to read, write and control."""
    listable: tuple[str, ...]
    """Folders whose file names may be listed: those on Python's path, so that a fresh Python finds this package."""


def find_allowed_paths(*, own_proc: bool) -> AllowedPaths:
    """Return the paths that children of this process need. Call it once everything they use is imported.

    Args:
        own_proc: whether /proc will show the children no processes but their own.
    """
    readable = [
        *SYSTEM,
        *SETTINGS,
        *(("/proc",) if own_proc else MACHINE),
        *filter(None, (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.pycache_prefix)),
        *(os.environ[name] for name in FOLDERS if os.environ.get(name)),
        *filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)),
        *_tools(),
        *_packages(),
    ]
    devices = [path for pattern in DEVICES for path in glob(pattern)]
    if "/dev/kfd" in devices:
        devices.append("/dev/dri")
    listable = tuple(path for path in sys.path if path and os.path.isdir(path))
    return AllowedPaths(_outermost(filter(_grantable, readable)), tuple(devices), listable)


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Drop paths that lie within others. Resolves symbolic links, but not /proc/self, which differs in the child."""
    kept: list[str] = []
    for path in sorted({path if path.startswith("/proc") else os.path.realpath(path) for path in paths}):
        if not any(path == outer or path.startswith(outer + "/") for outer in kept):
            kept.append(path)
    return tuple(kept)


def _grantable(path: str) -> bool:
    """Whether a path exists and is neither `/` nor the home folder, which would grant too much."""
    return os.path.isabs(path) and Path(path).resolve() not in (Path("/"), Path.home()) and os.path.exists(path)


def _tools() -> Iterator[str]:
    """Compilers and NVIDIA's tools, each with the folder of its headers and libraries."""
    for tool in filter(
        None, (os.environ.get("CC"), os.environ.get("CXX"), os.environ.get("TRITON_PTXAS_PATH"), *TOOLS)
    ):
        if path := shutil.which(tool):
            for file in (Path(path), Path(path).resolve()):
                yield str(file.parents[1] if file.parent.name == "bin" else file)
    if path := os.environ.get("TRITON_LIBCUDA_PATH"):
        yield path


def _packages() -> Iterator[str]:
    """Whole folders of packages; from other folders (a project's own) only the packages that are already imported."""
    for folder in filter(os.path.isdir, filter(None, sys.path)):
        if any((Path(folder) / name).is_dir() for name in LARGE_PACKAGES):
            yield folder
    for name, module in sys.modules.copy().items():
        if "." not in name and (file := getattr(module, "__file__", None)):
            path = Path(file)
            yield str(path.parent if path.name == "__init__.py" else path)
