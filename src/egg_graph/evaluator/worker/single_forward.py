"""Run one forward of a candidate alone in its process, watched from outside by a profiler, a sanitizer or a trace.

The judge compares none of its answers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from egg_graph.evaluator.wire import exchange
from egg_graph.evaluator.wire.untrusted import new_file
from egg_graph.schema import TF32

WARMUP_FORWARDS = 3
"""Forwards that compile, let an autotuner choose, and fill the caches."""


def write_payload(file: Path, payload: dict[str, Any]) -> None:
    """Write a job's payload for the watched program, with the time now. The file is there whole, or not at all."""
    unfinished = file.with_name(f"{file.name}.unfinished")
    with new_file(unfinished) as text:
        text.write(json.dumps({**payload, "begin": time.time()}).encode())
    unfinished.replace(file)


def read_payload(file: Path) -> dict[str, Any]:
    """Read what `write_payload` wrote."""
    payload: dict[str, Any] = json.loads(file.read_text())
    return payload


def tell_step(file: Path, payload: dict[str, Any], step: str) -> None:
    """Append one line to `file`: what is done now, and how long after `payload["begin"]` [s]."""
    with file.open("a") as steps:
        steps.write(f"{step} {time.time() - payload['begin']:.1f}\n")


INIT = torch.nn.init
DRAWS = frozenset({torch.Tensor.uniform_, torch.Tensor.normal_, INIT.uniform_, INIT.normal_, INIT.kaiming_uniform_})
"""What draws the weights of PyTorch's modules, as `DrawnOnHost` meets it."""


class DrawnOnHost(TorchFunctionMode):
    """Draw weights on the CPU and copy them, wherever they lie.

    The modules of PyTorch's random kernels are large. Under a tool that instruments every kernel they cost seconds, for
    weights that are replaced anyway.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        if func not in DRAWS or named.get("generator") is not None:
            return func(*args, **named)
        target, *rest = [named.pop("tensor")] if "tensor" in named else args
        host = torch.empty(target.shape, dtype=target.dtype, device="cpu")
        with torch.no_grad():
            target.copy_(func(host, *rest, **named))
        return target


def load_forward(folder: Path, payload: dict[str, Any], *, drawn_on_host: bool = False) -> Callable[[], Any]:
    """Load the candidate on the GPU; returns a function that runs one forward without gradients.

    Args:
        folder: holds `candidate.py` and the saved weights and inputs.
        payload: as `tools.job_files.write_case` made it.
        drawn_on_host: whether the first weights of its modules are drawn on the CPU. Only for small ones.
    """
    from egg_graph.evaluator.host.candidate import construct, load_module, load_weights

    tf32 = payload["precision"] in TF32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    args, kwargs = exchange.decode(payload["arguments"], exchange.inline_tensor)
    module = load_module(folder / "candidate.py")
    torch.manual_seed(payload["seed"])
    with ExitStack() as stack:
        stack.enter_context(torch.device("cuda"))
        if drawn_on_host:
            stack.enter_context(DrawnOnHost())
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
    for _ in range(WARMUP_FORWARDS):
        forward()
    torch.cuda.synchronize()
