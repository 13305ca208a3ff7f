"""What a process of the evaluator sees of its surroundings: an environment by allow-list, never by deny-list."""

import os
import sys
from pathlib import Path

KEPT = (
    *("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "CONDA_PREFIX"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"),
    *("TRITON_PTXAS_PATH", "TRITON_LIBCUDA_PATH", "CC", "CXX", "HIP_VISIBLE_DEVICES", "ROCM_PATH"),
)
"""Names that pass. Keys, tokens and everything else stay behind."""


def clean_environment() -> dict[str, str]:
    """The environment for judge and fork servers: what is kept, where our package lies, and one thread per process."""
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    home = str(Path(__file__).resolve().parents[3])
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([home, *_extra_paths()]))
    environment["PYTHONNOUSERSITE"] = "1"
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    environment["OMP_NUM_THREADS"] = environment["MKL_NUM_THREADS"] = environment["OPENBLAS_NUM_THREADS"] = "1"
    return environment


def _extra_paths() -> list[str]:
    """Folders that `PYTHONPATH` added in this process: torch or triton may live there."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [str(Path(path).resolve()) for path in given if path and path in sys.path]
