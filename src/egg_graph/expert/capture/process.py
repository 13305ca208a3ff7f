"""Capture a reference in another process, because the reference is somebody else's code."""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path

from egg_graph.evaluator import report_progress
from egg_graph.evaluator.spending import spending_on
from egg_graph.expert.capture.copies import leave_copies_out
from egg_graph.expert.capture.errors import CannotCapture
from egg_graph.expert.capture.fold_activation import join_mish
from egg_graph.expert.capture.folds import fold_linear_steps
from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.capture.wide_attention import write_out_wide_attention
from egg_graph.schema import BadInput, InfrastructureError, KernelTask

TIMEOUT = 180.0
"""Seconds that one capture may take; 1 to 20 are typical, and 4 more where the process has to start first."""
CHILD = "egg_graph.expert.capture.child"
CAPTURING = "captures what the reference computes"
LOG_TAIL = 300
"""Last characters of a died child's output that an error shows."""
MOST_AHEAD = 8
"""Captures that `begin_capture` began and nobody has asked for; the oldest one is forgotten."""
_AHEAD: dict[tuple[int, str, str], Future[CapturedGraph]] = {}
"""What `begin_capture` began, by `_key`."""


def capture_graph(task: KernelTask) -> CapturedGraph:
    """Capture the task's reference. Each reference is captured once per process and precision.

    Raises:
        BadInput: if the reference cannot be loaded.
        CannotCapture: if `torch.export` has no graph for it.
        InfrastructureError: if the child died without an answer or ran out of time.
    """
    if begun := _AHEAD.pop(_key(task), None):
        report_progress(CAPTURING)
        with spending_on("capture"):
            begun.result()
    return _capture(task.reference, task.precision)


def begin_capture(task: KernelTask) -> None:
    """Capture the task's reference in the background. `capture_graph` waits for that, and raises what it raises."""
    key = _key(task)
    if key in _AHEAD:
        return
    begun = _AHEAD[key] = Future()
    while len(_AHEAD) > MOST_AHEAD:
        _AHEAD.pop(next(iter(_AHEAD)), None)

    def capture() -> None:
        try:
            begun.set_result(_capture(task.reference, task.precision))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            begun.set_exception(error)

    threading.Thread(target=capture, name="capture", daemon=True).start()


def _key(task: KernelTask) -> tuple[int, str, str]:
    """What a capture hangs on; a fork of this process does not have what it began."""
    return os.getpid(), task.reference, task.precision


@lru_cache(maxsize=64)
def _capture(source: str, precision: str) -> CapturedGraph:
    report_progress(CAPTURING)
    with tempfile.TemporaryDirectory(prefix="egg-capture-") as name:
        folder = Path(name)
        (folder / "request.json").write_text(json.dumps({"source": source, "precision": precision}))
        with spending_on("capture"):
            _process().capture(folder)
        answer, log = folder / "answer.json", folder / "log.txt"
        if not answer.exists():
            told = log.read_text(errors="replace")[-LOG_TAIL:].strip() if log.exists() else ""
            raise InfrastructureError(f"capturing the reference died without an answer: {told}")
        reply = json.loads(answer.read_text())
    if "bad_input" in reply:
        raise BadInput(reply["bad_input"])
    if "cannot" in reply:
        raise CannotCapture(reply["cannot"])
    graph = leave_copies_out(CapturedGraph.model_validate(reply["graph"]))
    return fold_linear_steps(join_mish(write_out_wide_attention(graph)))


class CaptureProcess:
    """A warm process that captures one reference after another. Starting it takes seconds, so that one is kept."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._home: tempfile.TemporaryDirectory[str] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - what the process prints, as long as it lives
        atexit.register(self.stop)

    def capture(self, folder: Path) -> None:
        """Have the request in a folder answered there; threads take turns.

        Raises:
            InfrastructureError: if time is up. The next call starts another process.
        """
        with self._lock:
            child = self._running()
            assert child.stdin is not None and child.stdout is not None
            answered = False
            try:
                child.stdin.write(f"{folder}\n".encode())
                child.stdin.flush()
                if not select.select([child.stdout], [], [], TIMEOUT)[0]:
                    raise InfrastructureError(f"capturing the reference took more than {TIMEOUT:.0f} s")
                answered = child.stdout.readline() == b"\n"
            except BrokenPipeError:
                pass  # told below
            finally:
                if not answered:
                    self._kill()
            if not answered:
                raise InfrastructureError(f"the process that captures references died: {self._last_errors()}")

    def _running(self) -> subprocess.Popen[bytes]:
        child = self._child
        if child is None or child.poll() is not None:
            self._kill()  # what a process that died by itself left
            self._home = tempfile.TemporaryDirectory(prefix="egg-capture-")
            child = self._child = _started(self._home.name, self._errors.fileno())
        return child

    def _last_errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-LOG_TAIL:].strip()

    def stop(self) -> None:
        """End the process; a fork of this one leaves it alone."""
        if os.getpid() == self._owner:
            self._kill()
            self._errors.close()

    def _kill(self) -> None:
        child, self._child = self._child, None
        home, self._home = self._home, None
        if child is not None:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    pipe.close()
        if home is not None:
            home.cleanup()


_kept: list[CaptureProcess] = []


def _process() -> CaptureProcess:
    """The process of this interpreter; a fork of it starts its own."""
    if not _kept or _kept[0]._owner != os.getpid():
        _kept[:] = [CaptureProcess()]
    return _kept[0]


def running_process() -> int | None:
    """The process id of the warm process; None while there is none."""
    child = _process()._child
    return None if child is None or child.poll() is not None else child.pid


def _started(home: str, errors: int) -> subprocess.Popen[bytes]:
    """Start the process in a session and environment of its own, with every GPU hidden.

    The capture needs none; and PyTorch may bring CUDA up while it exports, after which no fork can use it.

    Args:
        home: its folder; whatever it writes is written there.
        errors: descriptor of the file that it prints errors to.
    """
    keep = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
    hidden = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
    environment = {
        **keep,
        **hidden,
        "HOME": home,
        "TMPDIR": home,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    return subprocess.Popen(
        [sys.executable, "-m", CHILD], cwd=home, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=errors, start_new_session=True,
    )  # fmt: skip
