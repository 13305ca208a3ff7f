"""The rung `profile`, with a program in place of Nsight Compute."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.host.fork_server import ChildExit, Limits
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.tools.profile_rung import profile_candidate
from egg_graph.evaluator.worker import profile_job
from egg_graph.schema import Hardware, KernelResources, KernelTask
from tests.evaluator.gpu.stand_ins import REFERENCE

PLAYER = """#!{python}
import json, pathlib, sys
words = sys.argv[1:]
folder, report = pathlib.Path(words[-1]), pathlib.Path(words[words.index("--log-file") + 1])
assert words[words.index("--target-processes") + 1] == "application-only", "compilers are no programs to profile"
assert json.loads((folder / "payload.json").read_text())["begin"] > 0
(folder / "ncu.steps").write_text("imported 2.1\\nwarm 3.0\\nprofiled 4.5\\n")
if "launch__grid_size" in words[words.index("--metrics") + 1]:
    report.write_text("==ERROR== Failed to find metric launch__grid_size\\n")
else:
    report.write_text('"ID","Kernel Name","gpu__time_duration.sum"\\n"","","ns"\\n"0","k","1,500"\\n')
"""


class Server:
    """Runs the job in this process."""

    def run(self, job: str, payload: dict[str, Any], folder: Path, limits: Limits) -> ChildExit:
        return ChildExit("exit", 0, 0.0, {"answer": profile_job.run(payload, folder, 3)}, "")


def test_a_profile_tells_where_its_time_went(h200: Hardware, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "ncu"
    program.parent.mkdir()
    program.write_text(PLAYER.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    problem = Problem(KernelTask(name="linear", reference=REFERENCE, target=h200, precision="ieee"), 7)
    builder = EvaluationBuilder(
        resources=(KernelResources(kernel="k", target="sm_90", grid=(1,), num_warps=4, num_stages=1),)
    )
    case = next(iter(problem.full_cases()))
    profile_candidate(Server(), problem, case, tmp_path, builder, "algorithmic_structure")  # type: ignore[arg-type]
    (rung,) = builder.rungs
    assert rung.outcome == "passed"
    assert "imported after 2.1 s, warm after 3.0 s, profiled after 4.5 s" in rung.statement
    assert builder.profile.metrics["gpu__time_duration.sum"].value == 1500
    assert builder.profile.metrics["launch__grid_size"].missing == "this GPU has no such metric"
