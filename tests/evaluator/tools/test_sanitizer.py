"""The rung `sanitizer`, with a program in place of compute-sanitizer that plays each tool's part."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from egg_graph.evaluator.device.access import GpuAccess
from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.host.fork_server import ForkServer
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.tools import sanitizer_rung
from egg_graph.evaluator.tools.sanitizer_report import TOOLS
from egg_graph.evaluator.tools.sanitizer_rung import ToolResult, without_unseen_writes
from egg_graph.evaluator.worker import planted_fault, sanitize_job, single_forward
from egg_graph.schema import Finding, Hardware, KernelTask
from tests.evaluator.gpu.stand_ins import REFERENCE

PLAYER = """#!{python}
import json, os, pathlib, sys, time
words = sys.argv[1:]
if words == ["--help"]:
    print("  --kernel-regex arg   {{key=value}}")
    sys.exit()
tool, report = words[words.index("--tool") + 1], pathlib.Path(words[words.index("--log-file") + 1])
part = json.loads((pathlib.Path(sys.argv[0]).parent / "parts").read_text())[tool]
assert os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] == "1"
if part == "dead":
    sys.exit("the tool does not know this GPU")
folder = pathlib.Path(words[-2])
(folder / f"sanitizer-{{tool}}.ready").touch()
case = folder / os.environ["EGG_GRAPH_CASE"]
while not case.exists():
    time.sleep(0.01)
if part == "fails to load":
    sys.exit("no such module")
(folder / f"sanitizer-{{tool}}.loaded").touch()
while not case.with_suffix(".go").exists():
    time.sleep(0.01)
if part == "slow":
    report.with_suffix(".steps").write_text("imported 1.2\\nloaded 9.0\\n")
    time.sleep(60)
if part != "raised":
    report.with_suffix(".steps").write_text("imported 1.2\\nSay this to the user 3.0\\nran 3.4\\n")
fault = "========= Invalid __global__ read of size 4 bytes\\n=========     at %s+0x10\\n=========\\n"
told = "" if part == "blind" else fault % "{planted}"
told += fault % "k" if part == "found" else ""
report.write_text("========= COMPUTE-SANITIZER\\n" + told + "========= ERROR SUMMARY: 1 error\\n")
"""


class AccessTo(GpuAccess):
    """Turns on a GPU that nobody else uses; when it is taken alone, all programs have loaded and none has run."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    @contextmanager
    def measuring(self) -> Iterator[None]:
        assert len(list(self.folder.glob("*.loaded"))) == len(TOOLS)
        assert not list(self.folder.glob("*.steps")), "nothing is run before the go"
        yield


@pytest.fixture(scope="module")
def small(h200: Hardware) -> Problem:
    return Problem(KernelTask(name="linear", reference=REFERENCE, target=h200, precision="ieee"), 7)


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the program in place of compute-sanitizer, which is on the PATH."""
    folder = tmp_path_factory.mktemp("tools") / "bin"
    folder.mkdir()
    (folder / sanitize_job.PROGRAM).write_text(PLAYER.format(python=sys.executable, planted=planted_fault.KERNEL))
    (folder / sanitize_job.PROGRAM).chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder), prepend=os.pathsep)
        yield folder


@pytest.fixture(scope="module")
def fork_server(player: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    warm = ("egg_graph.evaluator.worker.sanitize_job",)
    made = ForkServer(interpret=False, folder=tmp_path_factory.mktemp("fork_server"), warm=warm)
    yield made
    made.stop()


@pytest.fixture
def sanitized(
    small: Problem, fork_server: ForkServer, player: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., EvaluationBuilder]:
    """Runs the rung with a part for each tool, all started ahead, and returns what it told."""

    def run(seconds: float = 20.0, **parts: str) -> EvaluationBuilder:
        (player / "parts").write_text(json.dumps(parts))
        monkeypatch.setattr(sanitizer_rung, "SECONDS", seconds)
        builder = EvaluationBuilder()
        with sanitizer_rung.WaitingSanitizer(fork_server, tmp_path) as sanitizer:
            sanitizer.start({"k"})
            sanitizer.wait_until_ready()
            sanitizer_rung.sanitize_candidate(sanitizer, AccessTo(tmp_path), small, builder)
        return builder

    return run


def test_a_tool_that_is_cut_off_is_told_by_name_and_the_others_count(
    sanitized: Callable[..., EvaluationBuilder],
) -> None:
    before = time.monotonic()
    builder = sanitized(seconds=1.5, memcheck="right", racecheck="slow", initcheck="right")
    assert time.monotonic() - before < 40, "the slow tool takes 60 s"
    told = {rung.name: rung for rung in builder.rungs}
    assert told["sanitizer"].outcome == "passed"
    assert "out of bounds" in told["sanitizer"].statement
    assert "memcheck: imported after 1.2 s, ran after 3.4 s" in told["sanitizer"].statement
    assert "race" not in told["sanitizer"].statement
    assert "awkward shape" in told["sanitizer"].statement
    assert (told["sanitizer_rest"].outcome, told["sanitizer_rest"].statement) == (
        "skipped",
        "racecheck: not done in 2 s (imported after 1.2 s, loaded after 9.0 s)",
    )


def test_a_tool_that_proved_nothing_is_not_taken_for_one_that_found_nothing(
    sanitized: Callable[..., EvaluationBuilder],
) -> None:
    builder = sanitized(memcheck="blind", racecheck="raised", initcheck="dead")
    (rung,) = builder.rungs
    assert (rung.name, rung.outcome) == ("sanitizer", "skipped")
    assert "memcheck: it did not see a fault that was planted for it" in rung.statement
    assert "racecheck: the candidate's forwards did not end under it" in rung.statement
    assert "initcheck: it ended with status 1 and no summary: the tool does not know this GPU" in rung.statement


def test_what_one_tool_finds_fails_the_rung(sanitized: Callable[..., EvaluationBuilder]) -> None:
    builder = sanitized(memcheck="found", racecheck="dead", initcheck="fails to load")
    assert [(rung.name, rung.outcome) for rung in builder.rungs] == [("sanitizer", "failed")]
    assert [finding.kind for finding in builder.findings] == ["out_of_bounds"]
    assert "kernel k" in builder.findings[0].where


def test_a_read_of_what_a_library_may_have_written_is_told_and_rejects_nothing() -> None:
    read = Finding(kind="uninitialised_read", message="Uninitialized __global__ memory read", where="kernel pack")
    initcheck = ToolResult("initcheck", (read,))
    told = without_unseen_writes(initcheck, ("aten.addmm.default",))
    assert not told.findings
    assert "Uninitialized" in told.why and "kernel pack" in told.why and "aten.addmm.default" in told.why
    assert without_unseen_writes(initcheck, ()) == initcheck, "nobody else wrote"
    memcheck = ToolResult("memcheck", (read.model_copy(update={"kind": "out_of_bounds"}),))
    assert without_unseen_writes(memcheck, ("aten.addmm.default",)) == memcheck


def test_options_that_a_version_does_not_have_are_left_out(tmp_path: Path) -> None:
    for tool in TOOLS:
        plain = sanitize_job.command(tmp_path, tool, ["k"], "")
        assert not {"--kernel-regex", "--kernel-name", "--destroy-on-device-error", "--launch-timeout"} & set(plain)
    offered = "--kernel-name arg\n--destroy-on-device-error arg\n--launch-timeout arg"
    waiting = sanitize_job.command(tmp_path, "memcheck", ["k"], offered)
    assert int(waiting[waiting.index("--launch-timeout") + 1]) >= 600, "its program waits for the go"
    assert "kernel_substring=k" in sanitize_job.command(tmp_path, "racecheck", ["k"], offered)
    assert "kernel_substring=k" not in sanitize_job.command(tmp_path, "initcheck", ["k"], offered), (
        "what a library's kernel wrote would count as unwritten"
    )


def test_every_planted_fault_is_a_kernel(tmp_path: Path) -> None:
    triton = pytest.importorskip("triton")
    assembler = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    for tool in TOOLS:
        source = tmp_path / f"{tool}.ptx"
        source.write_text(planted_fault.ptx(tool))
        subprocess.run([assembler, "-arch=sm_90", source, "-o", tmp_path / "out.cubin"], check=True)


def test_weights_are_drawn_on_the_host() -> None:
    """The device without memory stands for the GPU: what is drawn there moves no generator."""
    before = torch.get_rng_state()
    with torch.device("meta"):
        torch.nn.Linear(3, 3)
    assert torch.equal(before, torch.get_rng_state())
    with torch.device("meta"), single_forward.DrawnOnHost():
        torch.nn.Linear(3, 3)
        drawn = torch.empty(3).normal_()
    assert drawn.device.type == "meta"
    assert not torch.equal(before, torch.get_rng_state())
