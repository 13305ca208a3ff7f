"""Examine this machine: one finding per thing that matters, each with its consequence and its cure."""

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

State = Literal["ok", "optional", "missing", "broken"]
"""`optional` is absent and seldom missed; `missing` costs a feature; `broken` stops everything until it is mended."""

TRITON_OF_TORCH = {"2.11": "3.6", "2.12": "3.7", "2.13": "3.7"}
"""Triton release that each PyTorch release is built against."""
TESTED_PYTHONS = {(3, 11), (3, 12)}
GIGA = 1e9
LEAST_MEMORY, LEAST_DISK = 8 * GIGA, 5 * GIGA
"""Free bytes below which memory and disk are called missing."""
VARIABLES = (
    ("EGG_MODEL", "--model must be given to use a chat model", "export EGG_MODEL=openai:gpt-5, or another model"),
    ("OPENAI_API_KEY", "OpenAI's models are out of reach", "export OPENAI_API_KEY; a local server takes any text"),
    ("OPENAI_BASE_URL", "requests go to api.openai.com", "export OPENAI_BASE_URL=http://localhost:8000/v1, say"),
)
"""Environment variables: name, what it costs to leave it unset, and how to set it."""


class Item(NamedTuple):
    """One thing examined. `consequence` and `cure` are empty where the state is ok."""

    name: str
    state: State
    found: str
    consequence: str = ""
    cure: str = ""


def examine(environment: Mapping[str, str] = os.environ, folder: Path | None = None) -> tuple[Item, ...]:
    """Examine this machine; takes seconds, because torch is imported to ask it for a GPU.

    Args:
        environment: the process's variables; only whether they are set is told, never their values.
        folder: where runs will be written (its disk is measured).
    """
    return (
        _python(),
        *_libraries(),
        *_gpu(),
        *_compiled_modules(),
        _compiler(environment),
        _program(
            "Nsight Compute (ncu)",
            "ncu",
            "profiles come from the compiler's own figures instead of hardware counters",
            "install the CUDA toolkit's nsight-compute and put ncu on PATH",
        ),
        _program(
            "compute-sanitizer",
            "compute-sanitizer",
            "you cannot run a kernel under memcheck or racecheck yourself; egg-graph does not need it",
            "install the CUDA toolkit's compute-sanitizer and put it on PATH",
        ),
        _isolation(),
        *(
            Item(name, "ok", "set") if environment.get(name) else Item(name, "optional", "not set", consequence, cure)
            for name, consequence, cure in VARIABLES
        ),
        _program(
            "LangGraph CLI",
            "langgraph",
            "runs cannot be watched in LangGraph Studio",
            "pip install 'egg-graph[studio]'",
        ),
        _memory(),
        _disk(folder or Path.cwd()),
    )


def prospects(items: tuple[Item, ...]) -> tuple[str, ...]:
    """What will work on this machine, in sentences."""
    if any(item.state == "broken" for item in items):
        return ("Nothing works yet: mend what is marked broken first.",)
    ok = {item.name for item in items if item.state == "ok"}
    judging = (
        "Kernels are judged on the GPU: correctness at full size, and timing against eager and torch.compile."
        if "GPU" in ok
        else "No GPU: kernels are checked in the guarded interpreter, compiled ahead of time for the target and "
        "bounded by its roofline; nothing is timed, and every verdict says so."
    )
    team = (
        "A chat model can play the team (egg-graph optimize --model NAME); without --model the embedded expert does."
        if ok & {name for name, *_ in VARIABLES}
        else "No model is set up: the embedded expert plays analyst, coder and debugger, with no key and no network."
    )
    return judging, team


def _python() -> Item:
    version = platform.python_version()
    if sys.version_info[:2] not in TESTED_PYTHONS:
        return Item("Python", "missing", version, "this Python is untested", "make the environment with python3.12")
    return Item("Python", "ok", version)


def _libraries() -> Iterator[Item]:
    versions = {}
    for name, package in (("PyTorch", "torch"), ("Triton", "triton")):
        try:
            versions[package] = importlib.metadata.version(package)
            yield Item(name, "ok", versions[package])
        except importlib.metadata.PackageNotFoundError:
            yield Item(name, "broken", "not installed", "no kernel can be made or judged", f"pip install {package}")
    if len(versions) == 2:
        yield _pair(**versions)


def _pair(torch: str, triton: str) -> Item:
    """Whether this Triton is the one that this PyTorch was built against."""
    pair = f"torch {torch} with triton {triton}"
    wanted = TRITON_OF_TORCH.get(".".join(torch.split(".")[:2]))
    if wanted is None:
        tested = ", ".join(f"torch {torch} with triton {triton}" for torch, triton in TRITON_OF_TORCH.items())
        return Item("versions match", "missing", pair, "this pair is untested", f"tested: {tested}")
    if not triton.startswith(wanted + "."):
        consequence = "torch.compile may fail, and the baseline with it"
        return Item("versions match", "missing", pair, consequence, f"pip install 'triton=={wanted}.*'")
    return Item("versions match", "ok", pair)


def _gpu() -> Iterator[Item]:
    """The GPU as torch sees it; where torch sees none, what the driver says."""
    if importlib.util.find_spec("torch") is None:
        return
    import torch

    driver = _driver()
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        found = f"{torch.cuda.get_device_name()}, {free / GIGA:.0f} of {total / GIGA:.0f} GB free"
        cuda = torch.version.cuda or torch.version.hip
        yield Item("GPU", "ok", f"{found}, driver {driver or 'unknown'}, CUDA {cuda}")
        return
    if driver is None:
        found, cure = "none", "run on a machine with an NVIDIA GPU to have kernels timed"
    elif torch.version.cuda is None:
        found = f"driver {driver}, but torch is a CPU build"
        cure = "install a CUDA build of torch (https://pytorch.org/get-started)"
    else:
        found = f"driver {driver}, but torch cannot use it"
        cure = "check that nvidia-smi works here, and that the driver is new enough for torch's CUDA"
    yield Item("GPU", "missing", found, "kernels are proven without a GPU, and never timed", cure)


def _driver() -> str | None:
    """Version of NVIDIA's driver; None where its tool is absent or finds no GPU."""
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (subprocess.SubprocessError, OSError) as error:
        return f"not answering ({type(error).__name__})"
    return answer.splitlines()[0].strip() if answer.strip() else None


def _compiled_modules() -> Iterator[Item]:
    from egg_graph.evaluator.judge.compile_cache import lacks_compiled_modules

    if importlib.util.find_spec("torch") is None:
        return
    if not lacks_compiled_modules():
        yield Item("compiled modules", "ok", "PyTorch's are kept")
        return
    consequence = "each Python that imports PyTorch compiles its sources anew, for seconds; judges keep theirs"
    cure = f"{sys.executable} -m compileall -q {sysconfig.get_path('purelib')}"
    yield Item("compiled modules", "optional", "PyTorch was installed without them", consequence, cure)


def _compiler(environment: Mapping[str, str]) -> Item:
    for name in filter(None, (environment.get("CC"), "gcc", "clang", "cc")):
        if path := shutil.which(name):
            return Item("C compiler", "ok", path)
    consequence = "Triton cannot build its launcher, nor torch.compile its CPU code: no launch and no compiled baseline"
    return Item("C compiler", "missing", "none of $CC, gcc, clang, cc", consequence, "apt-get install gcc libc6-dev")


def _program(name: str, program: str, consequence: str, cure: str) -> Item:
    """An optional program: on PATH, beside this Python, or in the CUDA toolkit."""
    places = (None, str(Path(sys.executable).parent), "/usr/local/cuda/bin")
    path = next(filter(None, (shutil.which(program, path=place) for place in places)), None)
    return Item(name, "ok", path) if path else Item(name, "optional", "not found", consequence, cure)


def _isolation() -> Item:
    from egg_graph.evaluator.sandbox.isolation import isolation

    holds, lacks = isolation()
    if not lacks:
        return Item("isolation", "ok", "; ".join(holds))
    consequence = "candidates are confined less: see docs/threat-model.md"
    cure = "judge models you do not trust on a recent Linux, or in a container that allows namespaces"
    return Item("isolation", "missing", "; ".join(lacks), consequence, cure)


def _memory() -> Item:
    available = _available_memory()
    if available is None:
        return Item("memory", "missing", "unknown", "large references may run out of it", "watch it yourself")
    found = f"{available / GIGA:.0f} GB available"
    if available < LEAST_MEMORY:
        return Item("memory", "missing", found, "references with large inputs may run out of it", "have 8 GB free")
    return Item("memory", "ok", found)


def _available_memory() -> float | None:
    """Free memory, or what the control group leaves of it [byte]; None where the system does not tell."""
    try:
        kilobytes = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        return None
    if kilobytes is None:
        return None
    available = float(kilobytes.group(1)) * 1024
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = float(Path("/sys/fs/cgroup/memory.current").read_text())
    except OSError:
        return available
    return available if limit == "max" else min(available, float(limit) - used)


def _disk(folder: Path) -> Item:
    free = shutil.disk_usage(folder).free
    found = f"{free / GIGA:.0f} GB free in {folder}"
    if free < LEAST_DISK:
        return Item("disk", "missing", found, "caches of compiled kernels may not fit", "free 5 GB")
    return Item("disk", "ok", found)
