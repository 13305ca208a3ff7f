"""A run killed with SIGKILL anywhere goes on where it was: same end, no evaluation repeated."""

import json
import os
import subprocess
import sys

import pytest

from tests.paths import IMPORTABLE


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the harness forks")
def test_killed_at_any_write_and_resumed(tmp_path):
    command = [sys.executable, "-m", "tests.runs.harness", str(tmp_path), "1", "7"]
    settings = {"LANGGRAPH_STRICT_MSGPACK": "true", "OPENBLAS_NUM_THREADS": "1"}  # forks: no thread but the main one
    environment = {**os.environ, "PYTHONPATH": IMPORTABLE, **settings}
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    whole, *killed = [json.loads(line) for line in done.stdout.splitlines()]

    evaluated = whole["log"]
    assert len(evaluated) > 8 and len(set(evaluated)) == len(evaluated)
    assert whole["state"]["status"] == "correct"
    assert sum(point["died"] for point in killed) > 10, "kill points all over the run"
    for point in killed:
        assert point["status"] == 0, point["writes"]
        log = point["log"]
        if len(log) > len(evaluated) and (again := point["may_repeat"]):
            log.remove(again[0])  # one of two: it was begun while the task before it was still being written
        assert log == evaluated, f"evaluated again after a kill at write {point['writes']}"
        assert point["state"] == whole["state"], f"another end after a kill at write {point['writes']}"
        assert point["files"] == whole["files"], "no half-written file is left"
