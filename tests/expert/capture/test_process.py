"""The process that captures a reference."""

import os
import re
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from egg_graph.evaluator.spending import accounted
from egg_graph.expert.capture import process
from egg_graph.expert.capture.errors import CannotCapture
from egg_graph.knowledge import load_hardware
from egg_graph.schema import BadInput, KernelTask
from tests.paths import IMPORTABLE

CALLER = """
from egg_graph.expert.capture.process import capture_graph
from egg_graph.schema import KernelTask
from egg_graph.knowledge import load_hardware

capture_graph(KernelTask(name="slow", reference={reference!r}, target=load_hardware("h200"), precision="tf32"))
"""


def test_it_dies_with_a_caller_that_is_killed(tmp_path):
    told = tmp_path / "pid"
    reference = f"import os, time\nopen({str(told)!r}, 'w').write(str(os.getpid()))\ntime.sleep(120)\n"
    environment = os.environ | {"PYTHONPATH": IMPORTABLE}
    caller = subprocess.Popen([sys.executable, "-c", CALLER.format(reference=reference)], env=environment)
    wait_until(lambda: told.exists() and told.read_text())
    child = int(told.read_text())
    assert alive(child)
    caller.kill()
    caller.wait()
    wait_until(lambda: not alive(child))


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def wait_until(there, seconds=60):
    deadline = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_time_of_a_capture_is_counted_once(monkeypatch):
    def capture(folder):
        time.sleep(0.02)
        (folder / "answer.json").write_text('{"cannot": "no graph"}')

    monkeypatch.setattr(process, "_process", lambda: SimpleNamespace(capture=capture))
    with accounted("team") as account:
        with pytest.raises(CannotCapture, match="no graph"):
            process._capture("no such reference", "tf32")
        assert 0.02 <= account.spending().seconds["capture"] < 1.0


def test_every_gpu_is_hidden_from_a_reference():
    """CUDA brought up before a fork cannot be used in it, and a machine with a GPU captures as one without."""
    found = "import os\nraise ValueError(repr([os.environ.get(f'{v}_VISIBLE_DEVICES') for v in ('CUDA', 'HIP')]))\n"
    with pytest.raises(BadInput, match=re.escape("['', '']")):
        process.capture_graph(KernelTask(name="asks", reference=found, target=load_hardware("h200"), precision="tf32"))
