"""Ctrl-C: the candidate ends, no model is called any more, and the way to go on is told."""

import pytest

from tests.graph.scripted import REFERENCE
from tests.runs.interrupting import interrupt, run

pytestmark = pytest.mark.slow


IN_PYTHON = """
import sys
from pathlib import Path
from egg_graph import optimize
from egg_graph.evaluator import LocalEvaluator
from tests.runs.looping import LoggedTeam

reference, runs, calls = sys.argv[1:]
parts = {"team": LoggedTeam(Path(calls)), "evaluator": LocalEvaluator(device="none"), "principles": ()}
optimize(reference, runs_dir=runs, target="h200", **parts)
"""


def start(calls, temporary, *words):
    return run(temporary, "-m", "tests.runs.looping", calls, *words)


def test_ctrl_c_ends_the_candidate_and_tells_how_to_go_on(tmp_path):
    (tmp_path / "relu.py").write_text(REFERENCE)
    calls, runs, temporary = tmp_path / "calls", tmp_path / "my runs", tmp_path / "tmp"
    temporary.mkdir()
    words = [tmp_path / "relu.py", "--runs", runs, "--target", "h200", "--device", "none"]
    said, there, seconds, status = interrupt(start(calls, temporary, "optimize", *words))
    (folder,) = runs.iterdir()
    assert said.strip() == f"stopped; go on with: egg-graph optimize --resume {folder.name} --runs '{runs}'"
    assert status == 130 and seconds < 5, "with the end of a whole Python process"
    assert not [process.command for process in there if process.alive]
    assert not list(temporary.iterdir())
    assert calls.read_text().split() == ["write"]


def test_ctrl_c_in_python_ends_its_traceback_with_how_to_go_on(tmp_path):
    (tmp_path / "relu.py").write_text(REFERENCE)
    temporary, runs = tmp_path / "tmp", tmp_path / "runs"
    temporary.mkdir()
    said, there, _, _ = interrupt(run(temporary, "-c", IN_PYTHON, tmp_path / "relu.py", runs, tmp_path / "calls"))
    (folder,) = runs.iterdir()
    last = ["KeyboardInterrupt", f"go on with egg_graph.resume({folder.name!r}, runs_dir={str(runs)!r})"]
    assert said.strip().splitlines()[-2:] == last
    assert not [process.command for process in there if process.alive]
