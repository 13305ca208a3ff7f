"""The environment variables of the evaluator's processes: an allow-list, so that keys and tokens stay behind."""

import os
import sys
from pathlib import Path

PASSED_ON = (
    *("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "CONDA_PREFIX"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"),
    *("TRITON_PTXAS_PATH", "TRITON_LIBCUDA_PATH", "CC", "CXX", "HIP_VISIBLE_DEVICES", "ROCM_PATH"),
    "PYTHONPYCACHEPREFIX",
)
"""Variables of the caller that are passed on."""


def clean_environment() -> dict[str, str]:
    """Return the environment for judge and fork servers.

    It holds the variables of `PASSED_ON`, a PYTHONPATH that finds this package, and one thread per process.
    """
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    home = str(Path(__file__).resolve().parents[3])
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([home, *_extra_paths()]))
    environment["PYTHONNOUSERSITE"] = "1"
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    environment["PYTHONBREAKPOINT"] = "0"  # a candidate's breakpoint() does nothing
    environment["OMP_NUM_THREADS"] = environment["MKL_NUM_THREADS"] = environment["OPENBLAS_NUM_THREADS"] = "1"
    return environment


def _extra_paths() -> list[str]:
    """Folders that PYTHONPATH added to this process's path: torch or triton may lie there."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [str(Path(path).resolve()) for path in given if path and path in sys.path]
