"""The rung `profile`: a real job, started ahead or not, with a program in place of Nsight Compute.

In one part it watches the real program, of which only what touches the GPU is stood in for; in the others one that
waits as that does, without seconds for PyTorch.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from egg_graph.evaluator.device.access import GpuAccess
from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.gate import functions_of
from egg_graph.evaluator.host.fork_server import ForkServer
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.tools.profile_rung import profile_candidate
from egg_graph.evaluator.tools.waiting_profiler import WaitingProfiler
from egg_graph.evaluator.worker.profile_job import LOADED, READY, REPORT, STEPS
from egg_graph.schema import Hardware, KernelResources, KernelTask
from tests.evaluator.gpu.stand_ins import REFERENCE

TABLE = '"ID","Kernel Name","gpu__time_duration.sum"\n"","","ns"\n"0","{kernel}","1,500"\n'
PLAYER = """#!{python}
import pathlib, subprocess, sys
words, part = sys.argv[1:], (pathlib.Path(sys.argv[0]).parent / "part").read_text()
folder, report = pathlib.Path(words[-1]), pathlib.Path(words[words.index("--log-file") + 1])
assert words[words.index("--target-processes") + 1] == "application-only", "compilers are no programs to profile"
(folder / "kernels").write_text(words[words.index("-k") + 1])
if part == "denied":
    sys.exit("==ERROR== ERR_NVGPUCTRPERM")
python, watched = words[words.index("-P") - 1], {real!r} if part == "real" else {waiting!r}
status = subprocess.run([python, "-P", "-c", watched, part, str(folder)]).returncode
if part == "silent":
    sys.exit(status)
if part.startswith("lacking") and "launch__grid_size" in words[words.index("--metrics") + 1]:
    report.write_text("==ERROR== Failed to find metric launch__grid_size\\n")
elif status == 0:
    report.write_text({table!r})
"""
REAL = """
import pathlib, sys, types
import torch
from egg_graph.evaluator.worker import profile_job, single_forward

def load_forward(folder, payload):
    assert not torch.cuda.is_initialized()
    (folder / "loaded").write_text(payload["precision"])
    return nothing

nothing = lambda: None
single_forward.load_forward, torch.cuda.synchronize = load_forward, nothing
torch.cuda.cudart = lambda: types.SimpleNamespace(cudaProfilerStart=nothing, cudaProfilerStop=nothing)
profile_job.main(pathlib.Path(sys.argv[2]))
"""
WAITING = """
import json, os, pathlib, sys, time
part, folder = sys.argv[1], pathlib.Path(sys.argv[2])
case = folder / os.environ["EGG_GRAPH_CASE"]
(folder / "ncu.ready").touch()
while not case.exists():
    time.sleep(0.01)
payload = json.loads(case.read_text())
if part == "lacking early" and not (folder / "started").exists():
    (folder / "started").touch()
    sys.exit(1)
(folder / "loaded").write_text(payload["precision"])
(folder / "ncu.steps").write_text(f"loaded {time.time() - payload['begin']:.1f}\\n")
(folder / "ncu.loaded").touch()
while not case.with_suffix(".go").exists():
    time.sleep(0.01)
time.sleep(60 if part == "slow" else 0)
"""


class Access(GpuAccess):
    """Turns on a GPU that nobody else uses; notes in which of them what was there."""

    folder: Path
    noted: dict[str, list[str]]

    @contextmanager
    def measuring(self) -> Iterator[None]:
        self.noted = {"when it was taken": _names(self.folder)}
        yield
        self.noted["when it was given back"] = _names(self.folder)


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the program in place of `ncu`, which is on the PATH."""
    folder = tmp_path_factory.mktemp("tools") / "bin"
    folder.mkdir()
    text = PLAYER.format(python=sys.executable, real=REAL, waiting=WAITING, table=TABLE.format(kernel="k"))
    (folder / "ncu").write_text(text)
    (folder / "ncu").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder), prepend=os.pathsep)
        yield folder


@pytest.fixture(scope="module")
def fork_server(player: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    warm = ("egg_graph.evaluator.worker.profile_job", "egg_graph.evaluator.worker.trace_job")
    made = ForkServer(interpret=False, folder=tmp_path_factory.mktemp("fork_server"), warm=warm)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def problem(h200: Hardware) -> Problem:
    return Problem(KernelTask(name="linear", reference=REFERENCE, target=h200, precision="ieee"), 7)


@pytest.fixture
def profiler(fork_server: ForkServer, player: Path, tmp_path: Path) -> Iterator[WaitingProfiler]:
    (player / "part").write_text("right")
    with WaitingProfiler(fork_server, tmp_path, "algorithmic_structure") as made:
        yield made


def profiled(profiler: WaitingProfiler, problem: Problem, kernel: str = "k") -> tuple[EvaluationBuilder, Access]:
    builder = EvaluationBuilder(
        resources=(KernelResources(kernel=kernel, target="sm_90", grid=(1,), num_warps=4, num_stages=1),)
    )
    access = Access()
    access.folder = profiler.folder
    profile_candidate(profiler, access, problem, next(iter(problem.full_cases())), builder)
    return builder, access


def wait_until_ready(profiler: WaitingProfiler) -> None:
    until = time.monotonic() + 60
    while not (profiler.folder / READY).exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.3)
    assert profiler.waits


def test_what_was_started_ahead_waits_for_the_go_and_then_needs_no_start(
    profiler: WaitingProfiler, problem: Problem, player: Path
) -> None:
    (player / "part").write_text("real")
    profiler.start(["forward", "k"])
    wait_until_ready(profiler)
    assert not {"loaded", STEPS} & set(_names(profiler.folder))
    builder, access = profiled(profiler, problem)
    (rung,) = builder.rungs
    assert rung.outcome == "passed"
    assert all(f"{step} after 0." in rung.statement for step in ("imported", "loaded", "warm", "profiled"))
    assert builder.profile.metrics["gpu__time_duration.sum"].value == 1500
    assert (profiler.folder / "kernels").read_text() == "regex:^(forward|k)$"
    assert (profiler.folder / "loaded").read_text() == "ieee"
    assert {"inputs.bin", "state.bin"} <= set(access.noted["when it was taken"])
    assert LOADED in set(access.noted["when it was taken"])
    assert REPORT in set(access.noted["when it was given back"]) - set(access.noted["when it was taken"])


def test_what_was_not_started_ahead_starts_before_the_gpu_is_taken(profiler: WaitingProfiler, problem: Problem) -> None:
    builder, access = profiled(profiler, problem)
    assert builder.profile.source == "ncu"
    assert READY in access.noted["when it was taken"]


def test_a_kernel_that_the_source_does_not_name_is_looked_at_all_the_same(
    profiler: WaitingProfiler, problem: Problem
) -> None:
    profiler.start(["forward"])
    builder, _ = profiled(profiler, problem)
    assert builder.profile.kernel == "k"
    assert (profiler.folder / "kernels").read_text() == "regex:^(k)$"


@pytest.mark.parametrize("part", ["lacking", "lacking early"])
def test_a_gpu_that_lacks_a_metric_gives_the_others(
    profiler: WaitingProfiler, problem: Problem, player: Path, part: str
) -> None:
    """Told once the forward has run, or while the candidate is loaded, ahead of the go."""
    (player / "part").write_text(part)
    builder, _ = profiled(profiler, problem)
    assert builder.profile.metrics["gpu__time_duration.sum"].value == 1500
    assert builder.profile.metrics["launch__grid_size"].missing == "this GPU has no such metric"


def test_ending_it_without_a_go_leaves_no_process(profiler: WaitingProfiler) -> None:
    with pytest.raises(ZeroDivisionError), profiler:
        profiler.start(["k"])
        wait_until_ready(profiler)
        assert len(_processes_in(profiler.folder)) >= 3, "the job, the program that watches and the watched one"
        raise ZeroDivisionError
    assert not profiler.waits
    assert _processes_in(profiler.folder) == []
    assert "loaded" not in _names(profiler.folder)
    profiler.start(["k"])
    profiler.close()
    assert _processes_in(profiler.folder) == []


def test_the_time_limit_counts_from_the_go(profiler: WaitingProfiler, problem: Problem, player: Path) -> None:
    profiler.seconds = 3.0
    profiler.start(["k"])
    wait_until_ready(profiler)
    time.sleep(3.2)
    assert profiled(profiler, problem)[0].profile.source == "ncu"
    (player / "part").write_text("slow")
    began = time.monotonic()
    builder, _ = profiled(profiler, problem)
    assert 3 < time.monotonic() - began < 20
    assert "Nsight Compute was not done within" in builder.rungs[0].statement
    assert "loaded after 0." in builder.rungs[0].statement
    assert _processes_in(profiler.folder) == []


def test_what_the_candidate_leaves_in_the_folder_is_no_go(
    profiler: WaitingProfiler, problem: Problem, player: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its own process is at work there while the profiler waits."""
    theirs = tmp_path_factory.mktemp("theirs") / "report"
    theirs.write_text(TABLE.format(kernel="k"))
    folder = profiler.folder
    folder.joinpath(READY).mkdir()
    (player / "part").write_text("silent")
    profiler.start(["k"])
    for name in ("go", "go.json", "payload.json", "job.json", f"{'0' * 32}.json", ".json", STEPS):
        folder.joinpath(name).write_text('{"begin": 0, "precision": "forged"}\nloaded 1.0\n')
    time.sleep(2.0)
    assert profiler.waits
    assert "loaded" not in _names(folder)
    folder.joinpath(REPORT).symlink_to(theirs)
    builder, _ = profiled(profiler, problem)
    assert folder.joinpath("loaded").read_text() == "ieee"
    assert builder.profile.source == "compiled"
    assert "ncu gave no table" in builder.rungs[0].statement


def test_an_ncu_that_ends_at_once_is_not_waited_for(profiler: WaitingProfiler, problem: Problem, player: Path) -> None:
    (player / "part").write_text("denied")
    began = time.monotonic()
    profiler.start(["k"])
    builder, _ = profiled(profiler, problem)
    assert time.monotonic() - began < 20
    assert "denies the GPU's counters" in builder.rungs[0].statement


def test_without_ncu_nothing_is_started(
    profiler: WaitingProfiler, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    profiler.start(["k"])
    assert not profiler.waits
    builder, _ = profiled(profiler, problem)
    assert "ncu is not on the PATH" in builder.rungs[0].statement


def test_the_kernels_of_a_source_are_among_its_functions() -> None:
    source = "@triton.jit\ndef k(x):\n    pass\n\nclass ModelNew:\n    def forward(self, x):\n        k[1](x)\n"
    assert functions_of(source) == {"forward", "k"}


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def _processes_in(folder: Path) -> list[int]:
    """Processes that work in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(folder):
                found.append(int(entry.name))
    return found
