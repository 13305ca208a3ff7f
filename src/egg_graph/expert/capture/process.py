"""Capture a reference in a child process, because the reference is somebody else's code."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

from egg_graph.evaluator import report_progress
from egg_graph.expert.capture.errors import CannotCapture
from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.schema import BadInput, InfrastructureError, KernelTask

TIMEOUT = 180.0
"""Seconds that the child may take; 5 to 15 are typical."""
CHILD = "egg_graph.expert.capture.child"


def capture_graph(task: KernelTask) -> CapturedGraph:
    """Capture the task's reference. Each reference is captured once per process and precision.

    Raises:
        BadInput: if the reference cannot be loaded.
        CannotCapture: if `torch.export` has no graph for it.
        InfrastructureError: if the child died without an answer or ran out of time.
    """
    return _capture(task.reference, task.precision)


@lru_cache(maxsize=64)
def _capture(source: str, precision: str) -> CapturedGraph:
    report_progress("captures what the reference computes")
    with tempfile.TemporaryDirectory(prefix="egg-capture-") as folder:
        request, answer = Path(folder, "request.json"), Path(folder, "answer.json")
        request.write_text(json.dumps({"source": source, "precision": precision}))
        log = _run([sys.executable, "-m", CHILD, str(request), str(answer)], folder)
        if not answer.exists():
            raise InfrastructureError(f"capturing the reference died without an answer: {log[-300:].strip()}")
        reply = json.loads(answer.read_text())
    if "bad_input" in reply:
        raise BadInput(reply["bad_input"])
    if "cannot" in reply:
        raise CannotCapture(reply["cannot"])
    return CapturedGraph.model_validate(reply["graph"])


def _run(command: list[str], folder: str) -> str:
    """Run the child in a session and environment of its own and return its log; kill its group at the time limit."""
    keep = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
    environment = {**keep, "HOME": folder, "TMPDIR": folder, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    child = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        return child.communicate(timeout=TIMEOUT)[0]
    except subprocess.TimeoutExpired:
        raise InfrastructureError(f"capturing the reference took more than {TIMEOUT:.0f} s") from None
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
