"""Capture a reference as an ATen graph in a child process, because the reference is somebody else's code.

Parent: `capture_graph(task)`. Child: `python -m egg_graph.expert.capture.process <request.json> <answer.json>`.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.schema import BadInput, InfrastructureError, KernelTask

TIMEOUT = 180.0
"""Seconds that a child may take; typical is 5 to 15."""


class CannotCapture(Exception):
    """The reference runs, but not as a graph (data-dependent control flow, say). One line why."""


def capture_graph(task: KernelTask) -> CapturedGraph:
    """The task's reference as a graph. Cached for the process's lifetime.

    Raises:
        BadInput: if the reference cannot be loaded.
        CannotCapture: if `torch.export` has no graph for it.
        InfrastructureError: if the child died without an answer or ran out of time.
    """
    return _capture(task.reference, task.precision)


@lru_cache(maxsize=64)
def _capture(source: str, precision: str) -> CapturedGraph:
    with tempfile.TemporaryDirectory(prefix="egg-capture-") as folder:
        request, answer = Path(folder, "request.json"), Path(folder, "answer.json")
        request.write_text(json.dumps({"source": source, "precision": precision}))
        log = _run([sys.executable, "-m", "egg_graph.expert.capture.process", str(request), str(answer)], folder)
        if not answer.exists():
            raise InfrastructureError(f"capturing the reference died without an answer: {log[-300:].strip()}")
        reply = json.loads(answer.read_text())
    if "bad_input" in reply:
        raise BadInput(reply["bad_input"])
    if "cannot" in reply:
        raise CannotCapture(reply["cannot"])
    return CapturedGraph.model_validate(reply["graph"])


def _run(command: list[str], folder: str) -> str:
    """Run the child in its own session, with a bare environment; the whole group dies at the time limit."""
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


def main(request: str, answer: str) -> None:
    """The child: answers `{"graph": …}`, `{"bad_input": …}` or `{"cannot": …}`."""
    from egg_graph.expert.capture.export import export_graph

    asked = json.loads(Path(request).read_text())
    try:
        reply: dict[str, object] = {"graph": export_graph(asked["source"], asked["precision"]).model_dump(mode="json")}
    except BadInput as error:
        reply = {"bad_input": str(error)}
    except CannotCapture as error:
        reply = {"cannot": str(error)}
    Path(answer).write_text(json.dumps(reply))


if __name__ == "__main__":
    # Under its real name, so that CannotCapture is one class and not two.
    from egg_graph.expert.capture.process import main as run

    run(*sys.argv[1:])
