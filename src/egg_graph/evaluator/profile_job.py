"""Nsight Compute on one steady-state forward of a candidate, in a confined process of its own.

The job starts `ncu`, which starts `python -m egg_graph.evaluator.profile_job FOLDER`: that one loads the candidate,
warms it up, and runs the forward that is profiled. Clocks are left as they are; the times seen here are no score.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

REPORT = "ncu.csv"
LARGEST_INPUT = 1 << 30
"""Bytes of inputs up to which a profile is taken."""


def run(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Run `ncu`; its table is left in `ncu.csv` of the folder."""
    (folder / "profile.json").write_text(json.dumps(payload))
    command = [
        *("ncu", "--clock-control", "none", "--csv", "--page", "raw", "--profile-from-start", "off"),
        *("--log-file", str(folder / REPORT), "-k", f"regex:{payload['kernels']}", "--launch-count", "20"),
        *("--metrics", ",".join(payload["metrics"]), sys.executable, "-m", __name__, str(folder)),
    ]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": payload["python_path"]}, check=False)
    return {"status": done.returncode}


def main(folder: Path) -> None:
    """The profiled program."""
    import torch

    from egg_graph.evaluator import exchange
    from egg_graph.evaluator.interpreter.module import construct, load_module, load_weights

    payload = json.loads((folder / "profile.json").read_text())
    args, kwargs = exchange.decode(payload["arguments"], exchange.inline_tensor)
    dtype = payload["dtype"]
    with torch.device("cuda"):
        model = construct(load_module(folder / "candidate.py"), args, kwargs)
    model = model.to("cuda") if dtype is None else model.to("cuda", exchange.DTYPES[dtype])
    load_weights(model, dict(zip(payload["state"], exchange.load(folder, "state")[1], strict=True)))
    inputs = torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.cuda, exchange.load(folder, "inputs")[1])
    with torch.no_grad():
        for _ in range(3):
            model(*inputs)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        model(*inputs)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
