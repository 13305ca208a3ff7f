"""Killed with SIGKILL at every node and resumed, under strict msgpack: same end, nothing paid twice."""

import json
import os
import subprocess
import sys

import pytest

from tests.paths import IMPORTABLE
from tests.sample import in_sample

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the script forks")
@pytest.mark.parametrize(("form", "first"), in_sample([("top level", 1), ("node", 2), ("wrapper", 1)], [("node", 2)]))
def test_killed_at_every_node_and_resumed(tmp_path, form, first):
    """A step makes two writes, its result and the checkpoint: every second write is a kill point at every step."""
    command = [sys.executable, "-m", "tests.graph.killed", str(tmp_path), form, str(first), "2"]
    settings = {"LANGGRAPH_STRICT_MSGPACK": "true", "OPENBLAS_NUM_THREADS": "1"}  # forks: no thread but the main one
    environment = {**os.environ, "PYTHONPATH": IMPORTABLE, **settings}
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    whole, *killed = [json.loads(line) for line in done.stdout.splitlines()]
    paid = whole["log"]
    assert paid.count("coder") == 3 and {"analyst", "debugger", "baseline", "screen 2"} <= set(paid)
    evaluations = [line for line in paid if len(line.split()[-1]) == 12]
    assert len(evaluations) == len(set(evaluations)) > 4
    *died, last = killed
    assert len(died) > 15 and all(point["died"] for point in died) and not last["died"]
    for point in killed:
        assert point["log"] == paid, f"paid twice after a kill at write {point['writes']}"
        assert point["state"] == whole["state"] and point["attempts"] == whole["attempts"]
