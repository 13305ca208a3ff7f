"""The first thing a newcomer does: one real reference, the embedded expert, no key, no GPU."""

import json
import os
import subprocess
import sys

import pytest

from tests.paths import CHILD_SECONDS, EXAMPLES


@pytest.mark.slow
def test_softmax_ends_accepted_with_its_evidence(tmp_path):
    command = [sys.executable, "-m", "egg_graph", "optimize", str(EXAMPLES / "softmax.py"), "--device", "none"]
    secrets = {"OPENAI_API_KEY": "", "EGG_MODEL": ""}
    environment = {**os.environ, **secrets, "COLUMNS": "200"}
    result = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=CHILD_SECONDS, check=False, env=environment
    )
    assert result.returncode == 0, result.stdout + result.stderr
    for shown in (
        "baseline",
        "algorithmic structure",
        "memory optimization",
        "correct",
        "proven",
        "not proven",
        "bound",
    ):
        assert shown in result.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    evidence = json.loads((folder / "evidence.json").read_text())
    assert evidence["status"] == "correct"
    assert any("no speed was measured" in line for line in evidence["not_proven"])
    kernel = (folder / "kernel.py").read_text()
    assert "class ModelNew" in kernel and "@triton.jit" in kernel
    assert "CONFIG" not in kernel and "SPACE" not in kernel, "the kernel handed over has plain constants"
    assert "<svg" in (folder / "report.html").read_text()
