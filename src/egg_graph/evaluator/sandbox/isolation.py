"""What confines a candidate's process on this machine, in words: `python -m egg_graph.evaluator.sandbox.isolation`."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from egg_graph.evaluator.sandbox.policy import find_policy


@cache
def isolation(without: tuple[str, ...] = ()) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What confines a candidate's process on this machine, and what does not and why; short plain sentences.

    Asked in a bare interpreter, because the probe forks, which must not happen beside threads or an open GPU.

    Args:
        without: mechanisms of `policy.MECHANISMS` that are switched off.
    """
    command = [sys.executable, "-P", "-m", "egg_graph.evaluator.sandbox.isolation", *without]
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode != 0:
        return (), (f"what confines candidates is not known: the probe failed ({done.stderr.strip()[-200:]})",)
    holds, lacks = json.loads(done.stdout)
    return tuple(holds), tuple(lacks)


if __name__ == "__main__":
    print(json.dumps(find_policy(sys.argv[1:]).words(sys.argv[1:])))
