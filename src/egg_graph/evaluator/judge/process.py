"""The judge's process: `python -m egg_graph.evaluator.judge.process FD SETTINGS`.

One JSON request a line on the socket FD; any number of reports of progress and one answer each, also JSON. When its
owner closes the socket or dies, it ends, and everything it started ends with it. The fork servers start first, so that
they import while the judge does; it imports before it is asked anything, and opens the GPU when it is first asked.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egg_graph.evaluator.device.detect import gpu_present
from egg_graph.evaluator.garbage_collection import garbage_collection_off
from egg_graph.evaluator.host.fork_server import ForkServer
from egg_graph.evaluator.judge import compile_cache
from egg_graph.evaluator.progress import Progress, hear_progress
from egg_graph.evaluator.sandbox import confine
from egg_graph.evaluator.sandbox.isolation import isolation
from egg_graph.evaluator.spending import accounted, spending_on
from egg_graph.schema import BadInput, InfrastructureError

if TYPE_CHECKING:
    from egg_graph.evaluator.judge.judge import Judge

JOBS = "egg_graph.evaluator.worker.jobs"
WORKER = "egg_graph.evaluator.worker.gpu_worker"


def main(control: socket.socket, settings: dict[str, Any], folder: Path) -> None:
    """Start the fork servers, then serve."""
    confine.hide_memory()
    os.environ.setdefault("HOME", str(folder))
    os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
    place = _opened_compile_cache(settings)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str((place or folder) / "inductor")
    # PyTorch's compiler would start a process per core for one baseline, and keep them.
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    worker = () if settings["device"] == "none" else (WORKER,)
    bytecode = {name: os.environ[name] for name in compile_cache.BYTECODE if name in os.environ}
    compiling = ForkServer(interpret=False, folder=folder, warm=(JOBS, *worker), environment=bytecode)
    # No GPU for what interprets: fake tensors would open it where they see one, and that spoils forks.
    without_gpu = {**bytecode, "CUDA_VISIBLE_DEVICES": ""}
    interpreting = ForkServer(interpret=True, folder=folder, warm=(JOBS,), environment=without_gpu)
    compiling.start()
    interpreting.start()
    with ThreadPoolExecutor(1) as aside, garbage_collection_off():
        aside.submit(isolation)  # a process of its own finds out, and the answer is kept
        import torch
        import torch._dynamo  # the first question to any reference is asked under fake tensors, which import it

        if settings["device"] != "none" and gpu_present():
            import torch._inductor.compile_fx  # for the baseline

            threading.Thread(target=hash_compilers, daemon=True).start()

        from egg_graph.evaluator.judge.judge import Judge

    def make() -> Judge:
        torch.set_num_threads(1)
        if place is not None and torch.cuda.is_available():
            compile_cache.measure_choices_anew()
        return Judge(settings, folder, compiling, interpreting, place)

    serve(control, LazyJudge(make))


def hash_compilers() -> None:
    """Read the files of PyTorch's compiler and of Triton once, which the first baseline would wait for (0.5 s)."""
    from torch._inductor.codecache import torch_key
    from triton.runtime.cache import triton_key

    triton_key()
    torch_key()


def _opened_compile_cache(settings: dict[str, Any]) -> Path | None:
    """The folder of what was compiled for earlier judges; None where there is none, with a line in the log why."""
    if settings["device"] == "none":
        return None  # nothing is compiled here that a later judge could use
    place = compile_cache.open_cache(Path(settings["compile_cache"]))
    if isinstance(place, str):
        print(f"nothing is kept for later judges: {place}", flush=True)
        return None
    return place


def warm(task: dict[str, Any]) -> None:
    """Find ahead the reduced shapes that an evaluation of this task needs: that neither draws a number nor opens the
    GPU."""
    from egg_graph.evaluator.problem.shapes import choose_shapes

    choose_shapes(task["reference"])


class LazyJudge:
    """The judge, made at the first request that needs it. The request `warm` needs none."""

    def __init__(self, make: Callable[[], Judge]) -> None:
        self._make = make
        self._judge: Judge | None = None

    def answer(self, method: str, params: dict[str, Any], sent: float) -> Any:
        """Answer one request, which was sent at a time of the monotonic clock [s]; return JSON."""
        if method == "warm":
            return warm(params["task"])
        with accounted() as account:
            account.add("start", max(0.0, time.monotonic() - sent))  # until this process could read it
            if self._judge is None:
                with spending_on("start"):
                    self._judge = self._make()
            return self._judge.answer(method, params)


def serve(control: socket.socket, judge: LazyJudge) -> None:
    """Answer requests until the owner goes away; a thread notices that even during a request."""
    threading.Thread(target=_end_with_owner, args=(control,), daemon=True).start()
    sending = threading.Lock()

    def send(message: dict[str, Any]) -> None:
        with sending:
            control.sendall(json.dumps(message).encode() + b"\n")

    def send_progress(progress: Progress) -> None:
        send({"progress": progress.model_dump(mode="json")})

    for line in control.makefile("rb"):
        request = json.loads(line)
        try:
            with hear_progress(send_progress):
                answer = {"result": judge.answer(request["method"], request["params"], request["sent"])}
        except BadInput as error:
            answer = {"error": {"type": "BadInput", "message": str(error)}}
        except InfrastructureError as error:
            traceback.print_exc()
            answer = {"error": {"type": "InfrastructureError", "message": str(error)}}
        except Exception as error:  # noqa: BLE001 - not the candidate's doing, and who knows what it broke here
            traceback.print_exc()
            answer = {"error": {"type": "JudgeLost", "message": f"{type(error).__name__}: {error}"}}
        send(answer)


def _end_with_owner(control: socket.socket) -> None:
    """End this process when its owner closes the socket. The fork servers die with it, their children with them."""
    closed = select.poll()
    closed.register(control, select.POLLRDHUP)
    closed.poll()
    os._exit(0)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2]), Path.cwd())
