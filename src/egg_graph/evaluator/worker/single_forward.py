"""One forward of a candidate alone in its process, for programs that watch it from outside.

A profiler, a sanitizer or a trace watches the forward; the judge compares none of its answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from egg_graph.evaluator.wire import exchange

ORDER = "solo.json"
WARM_FORWARDS = 3
"""Forwards that compile, let an autotuner choose, and fill the caches."""


def leave_order(folder: Path, payload: dict[str, Any]) -> None:
    """For a program that is started rather than forked."""
    (folder / ORDER).write_text(json.dumps(payload))


def read_order(folder: Path) -> dict[str, Any]:
    """What `leave_order` wrote."""
    order: dict[str, Any] = json.loads((folder / ORDER).read_text())
    return order


def prepare(folder: Path, order: dict[str, Any]) -> Callable[[], Any]:
    """Load the candidate on the GPU; the function returned runs one forward without gradients."""
    import torch

    from egg_graph.evaluator.host.candidate import construct, load_module, load_weights

    tf32 = order["precision"] == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    args, kwargs = exchange.decode(order["arguments"], exchange.inline_tensor)
    module = load_module(folder / "candidate.py")
    torch.manual_seed(order["seed"])
    with torch.device("cuda"):
        model = construct(module, args, kwargs)
    dtype = order["dtype"]
    model = model.to("cuda") if dtype is None else model.to("cuda", exchange.DTYPES[dtype])
    load_weights(model, dict(zip(order["state"], _saved(folder, "state"), strict=True)))
    inputs = torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.cuda, _saved(folder, "inputs"))

    def forward() -> Any:
        with torch.no_grad():
            return model(*inputs)

    return forward


def _saved(folder: Path, name: str) -> Sequence[Any]:

    return exchange.load(folder, name)[1]


def warm(forward: Callable[[], Any]) -> None:
    """Bring a forward to its steady state."""
    import torch

    for _ in range(WARM_FORWARDS):
        forward()
    torch.cuda.synchronize()
