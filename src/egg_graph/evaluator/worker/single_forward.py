"""Run one forward of a candidate alone in its process, watched from outside by a profiler, a sanitizer or a trace.

The judge compares none of its answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from egg_graph.evaluator.wire import exchange

PAYLOAD = "payload.json"
"""File in the job's folder that holds the payload, for a program that is started rather than forked."""
WARMUP_FORWARDS = 3
"""Forwards that compile, let an autotuner choose, and fill the caches."""


def write_payload(folder: Path, payload: dict[str, Any]) -> None:
    """Write a job's payload into its folder."""
    (folder / PAYLOAD).write_text(json.dumps(payload))


def read_payload(folder: Path) -> dict[str, Any]:
    """Read what `write_payload` wrote."""
    payload: dict[str, Any] = json.loads((folder / PAYLOAD).read_text())
    return payload


def load_forward(folder: Path, payload: dict[str, Any]) -> Callable[[], Any]:
    """Load the candidate on the GPU; returns a function that runs one forward without gradients.

    Args:
        folder: holds `candidate.py` and the saved weights and inputs.
        payload: as `tools.job_payload.write_case` made it.
    """
    import torch

    from egg_graph.evaluator.host.candidate import construct, load_module, load_weights

    tf32 = payload["precision"] == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    args, kwargs = exchange.decode(payload["arguments"], exchange.inline_tensor)
    module = load_module(folder / "candidate.py")
    torch.manual_seed(payload["seed"])
    with torch.device("cuda"):
        model = construct(module, args, kwargs)
    dtype = payload["dtype"]
    model = model.to("cuda") if dtype is None else model.to("cuda", exchange.DTYPES[dtype])
    load_weights(model, dict(zip(payload["state"], _load_saved(folder, "state"), strict=True)))
    inputs = torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.cuda, _load_saved(folder, "inputs"))

    def forward() -> Any:
        with torch.no_grad():
            return model(*inputs)

    return forward


def _load_saved(folder: Path, name: str) -> Sequence[Any]:
    return exchange.load(folder, name)[1]


def warm_up(forward: Callable[[], Any]) -> None:
    """Bring a forward to its steady state."""
    import torch

    for _ in range(WARMUP_FORWARDS):
        forward()
    torch.cuda.synchronize()
