"""The capturing process: `python -m egg_graph.expert.capture.child`.

It imports torch once, then forks for every reference. It reads one line per reference from its standard input: the path
of a folder that holds `request.json`, `{"source": …, "precision": …}`. A fork answers with `answer.json` there,
`{"graph": …}`, `{"bad_input": …}` or `{"cannot": …}`, and its output goes to `log.txt`. When the fork has ended, one
line is written to standard output. The process ends with its input.
"""

import json
import os
import select
import sys
import tempfile
from pathlib import Path

from egg_graph.evaluator.garbage_collection import garbage_collection_off
from egg_graph.evaluator.sandbox.confine import die_with_parent
from egg_graph.expert.capture.errors import CannotCapture
from egg_graph.schema import BadInput

WARM_UP = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x @ x, -1)

def get_inputs():
    return [torch.rand(8, 8)]
"""
"""A reference of which the capture needs most of what any capture needs."""


def answer(folder: Path) -> None:
    """Export the reference that the folder's request holds and write the answer beside it."""
    from egg_graph.expert.capture.export import export_graph

    asked = json.loads((folder / "request.json").read_text())
    try:
        reply: dict[str, object] = {"graph": export_graph(asked["source"], asked["precision"]).model_dump(mode="json")}
    except BadInput as error:
        reply = {"bad_input": str(error)}
    except CannotCapture as error:
        reply = {"cannot": str(error)}
    (folder / "answer.json").write_text(json.dumps(reply))


def serve() -> None:
    """Answer folder after folder. The reference runs in a fork, so that it leaves nothing behind in this process."""
    with garbage_collection_off():
        warm_up()
    for line in sys.stdin:
        folder = Path(line.rstrip("\n"))
        child = os.fork()
        if child == 0:
            die_with_parent()
            _be_alone_in(folder)
            answer(folder)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        _wait_for(child)
        print(flush=True)


def _wait_for(child: int) -> None:
    """Wait until the fork has ended. If the caller goes away meanwhile, end at once, and the fork with this process."""
    ended = os.pidfd_open(child)
    waiting = select.poll()
    waiting.register(ended, select.POLLIN)
    waiting.register(sys.stdin.fileno(), 0)  # 0: its end alone
    if all(file != ended for file, _ in waiting.poll()):
        os._exit(1)
    os.close(ended)
    os.waitpid(child, 0)


def warm_up() -> None:
    """Export a module of our own under fake tensors: PyTorch imports and prepares much on the first export.

    Nothing is computed, so that no thread has started when this process forks.
    """
    from egg_graph.expert.capture.export import export_full_shape  # loads torch, which takes seconds

    export_full_shape(WARM_UP, "ieee")


def _be_alone_in(folder: Path) -> None:
    """Make the folder this fork's home, and its log this fork's output."""
    os.chdir(folder)
    os.environ.update(HOME=str(folder), TMPDIR=str(folder))
    tempfile.tempdir = None  # it is remembered from before the fork
    silent = os.open(os.devnull, os.O_RDONLY)
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((silent, 0), (log, 1), (log, 2)):
        os.dup2(source, target)


if __name__ == "__main__":
    serve()
