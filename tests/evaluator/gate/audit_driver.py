"""Child of the tests: runs each snippet in a fork of its own, under the tripwire, and prints what it reported."""

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy  # noqa: F401 - as in a candidate's process
import torch  # noqa: F401
import triton  # noqa: F401

from egg_graph.evaluator.gate import audit
from egg_graph.evaluator.host.candidate import load_module


def report(source: str, path: Path) -> dict[str, object]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        path.write_text(source)
        audit.report_to(write)
        os.chdir(path.parent)
        try:
            answer = {"answer": repr(load_module(path).go())}
        except Exception as error:  # noqa: BLE001 - every outcome is reported to the test
            answer = {"raised": f"{type(error).__name__}: {error}"}
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        snippets = json.load(sys.stdin)
        print(json.dumps({n: report(s, Path(folder, f"{k}.py")) for k, (n, s) in enumerate(snippets.items())}))
