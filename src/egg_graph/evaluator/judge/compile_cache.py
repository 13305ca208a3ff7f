"""What judges keep on disk for later judges: what PyTorch compiled of references, Triton's compiled driver module and
launchers, what Triton compiled of candidates, each of which gets its own code alone (`gpuless.kept_code`), and Python's
compiled modules, where PyTorch was installed without them.

Only compiled code is kept. No time, no answer and no choice that a clock made outlives a judge: which of several
configurations of a compiled kernel is the fastest is measured anew (`measure_choices_anew`). Tuned PyTorch alone, which
costs minutes and decides no verdict, is kept with its times (`gpu.tuned.kept`). PyTorch finds an entry by
the graph, its own version, its settings and the GPU. Candidates neither read nor write here: where Linux cannot
promise that (no Landlock), nothing is kept.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from importlib.metadata import version
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from egg_graph.evaluator.sandbox import landlock

BYTECODE = ("PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE")
"""Variables that say where Python keeps compiled modules, and that it keeps none."""


def cache_folder() -> Path:
    """The folder of this user, by the caller's environment: `egg-graph/compiled` in `$XDG_CACHE_HOME` or `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "egg-graph" / "compiled"


def open_cache(root: Path) -> Path | str:
    """Return the folder of this month and these versions, made if missing; why nothing can be kept as text.

    What was kept before last month is deleted.

    Args:
        root: as `cache_folder` names it.
    """
    if landlock.abi() < landlock.LEAST_ABI:
        return "nothing keeps candidates from writing there (needs Linux 5.19 with Landlock)"
    now = time.gmtime()
    months = [f"{now.tm_year}-{now.tm_mon:02}", f"{now.tm_year - (now.tm_mon == 1)}-{(now.tm_mon - 2) % 12 + 1:02}"]
    versions = f"torch-{version('torch')}-triton-{version('triton')}-python-{platform.python_version()}"
    folder = root / months[0] / versions
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = root.stat()
        if about.st_uid != os.getuid() or about.st_mode & 0o022:
            return f"others may write to {root}"
        folder.mkdir(parents=True, exist_ok=True)
        for entry in root.iterdir():
            if entry.name not in months:
                shutil.rmtree(entry, ignore_errors=True)  # another judge may be deleting it, too
    except OSError as error:
        return f"{root} cannot be used: {error}"
    return folder


def bytecode_environment(root: Path) -> dict[str, str]:
    """Variables by which a judge's Python processes keep compiled modules; none where PyTorch's are there already.

    Where Python is not to write them, each process would compile PyTorch's sources anew, which takes longer than all
    else that a judge does before its first answer.

    Args:
        root: as `cache_folder` names it.
    """
    if not lacks_compiled_modules():
        return {}
    folder = open_cache(root)
    if isinstance(folder, str):
        return {}  # the judge tells why nothing is kept
    return dict(zip(BYTECODE, (str(folder / "bytecode"), ""), strict=True))


def lacks_compiled_modules() -> bool:
    """Whether PyTorch is installed without Python's compiled modules, which some installers leave out."""
    torch = find_spec("torch")
    return torch is not None and torch.origin is not None and not Path(cache_from_source(torch.origin)).exists()


def measure_choices_anew() -> None:
    """Have PyTorch's compiler keep no choice between configurations: it may have been made on a busy GPU."""
    from torch._inductor import config

    config.autotune_local_cache = False


def compiled_driver(folder: Path, kept: Path | None) -> Path | None:
    """Return a folder with Triton's compiled driver module, as a cache for every worker: the C compiler takes seconds.

    Args:
        folder: of this judge.
        kept: the folder that `open_cache` returned, if it did.

    Returns:
        None where Triton kept nothing.
    """
    from triton.runtime import driver

    cache, copy = Path(os.environ["TRITON_CACHE_DIR"]), folder / "driver"
    if kept is not None and (kept / "driver").is_dir():
        shutil.copytree(kept / "driver", cache, dirs_exist_ok=True)
    _ = driver.active.utils  # compiles it into this process's own cache, which holds nothing else yet
    if not cache.is_dir():
        return None
    shutil.copytree(cache, copy)
    if kept is not None and not (kept / "driver").exists():
        _keep(copy, kept / "driver")
    return copy


def _keep(made: Path, place: Path) -> None:
    """Put a copy of a folder in its place at once, unless another judge has done so."""
    passing = place.with_name(f"{place.name}.{os.getpid()}")
    shutil.copytree(made, passing)
    try:
        passing.rename(place)
    except OSError:  # another judge was faster, and its folder is as good
        shutil.rmtree(passing, ignore_errors=True)
