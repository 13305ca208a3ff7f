"""A bench killed with SIGKILL at any moment goes on where it was: the same table, and nothing measured twice."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.paths import IMPORTABLE
from tests.sample import thorough


@pytest.fixture(scope="module")
def benches(tmp_path_factory):
    """What each bench of the harness left, by where it was killed."""
    settings = {"LANGGRAPH_STRICT_MSGPACK": "true", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": IMPORTABLE}
    command = [sys.executable, "-m", "tests.bench.harness", str(tmp_path_factory.mktemp("benches"))]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=200, env={**os.environ, **settings}, check=False
    )
    assert done.returncode == 0, done.stderr
    return {bench["where"]: bench for bench in map(json.loads, done.stdout.splitlines())}


@thorough
def test_killed_anywhere_and_started_again(benches):
    whole = benches["undisturbed"]
    assert [row["status"] for row in whole["rows"]] == ["faster", "reference_kept"]
    killed = [bench for where, bench in benches.items() if where != "undisturbed"]
    calls = Counter(whole["calls"])
    assert len(killed) == 6 and len(calls) == 7
    assert not any(whole["resumed"]) and all(any(benches[f"call {number}"]["resumed"]) for number in (2, 5))
    for bench in killed:
        assert bench["rows"] == whole["rows"], bench["where"]
        assert bench["table"] == whole["table"], bench["where"]
        twice = Counter(bench["calls"]) - calls
        in_work = 2 if bench["where"].startswith("call") else 0  # what was being measured when the bench died
        assert sum(twice.values()) <= in_work, (bench["where"], twice)
        assert not calls - Counter(bench["calls"]), bench["where"]
