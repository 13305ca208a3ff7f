"""What a confined child does for the GPU-less ladder, each job on one candidate in `candidate.py` of its folder.

A job gets JSON and the files of its folder, runs candidate code, and returns JSON. Its answer is data of an untrusted
process: the judge compares the bytes it wrote and believes no verdict of its own.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from egg_graph.evaluator import exchange
from egg_graph.evaluator.child import name_the_line_when_stuck
from egg_graph.schema import Hardware

CANDIDATE = "candidate.py"


def warm_up() -> None:
    """Import and touch, before any fork, what every job would pay for. Nothing here may touch CUDA."""
    import torch
    import triton.language as _language  # noqa: F401 - imported for its weight

    if os.environ.get("TRITON_INTERPRET") != "1":
        return
    from torch._subclasses.fake_tensor import FakeTensorMode

    from egg_graph.evaluator.interpreter import install
    from egg_graph.evaluator.interpreter import library as _library  # noqa: F401 - imported for its weight

    install()
    with FakeTensorMode(), torch.no_grad():
        torch.nn.functional.linear(torch.empty(2, 2), torch.empty(2, 2))


def interpret(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """One forward under the guarded interpreter. Writes `output` and `after` (the inputs as the call left them)."""
    from egg_graph.evaluator.interpreter import run_real

    _name_the_line_when_stuck(payload)
    args, kwargs = _arguments(payload)
    names = payload["state"]
    _, weights = exchange.load(folder, "state")
    _, inputs = exchange.load(folder, "inputs")
    run = run_real(
        folder / CANDIDATE,
        args,
        kwargs,
        dict(zip(names, weights, strict=True)),
        inputs,
        seed=payload["seed"],
        hardware=Hardware.model_validate(payload["hardware"]),
        dtype=payload["dtype"],
    )
    structure, leaves = exchange.flatten(run.output)
    strange = sorted({type(leaf).__name__ for leaf in leaves if not _plain(leaf)})
    if not strange:
        exchange.save(folder, "output", leaves, structure=structure)
    exchange.save(folder, "after", inputs)
    return {
        "launches": [launch.kernel for launch in run.launches],
        "strange": strange,
        "findings": [finding.model_dump() for finding in (*run.races, *run.unwritten)],
    }


def launches(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """One forward at full shape on tensors without memory: a `FakeRun`."""
    from egg_graph.evaluator.faults import Unfakeable
    from egg_graph.evaluator.interpreter import TensorSpec, run_fake

    _name_the_line_when_stuck(payload)
    args, kwargs = _arguments(payload)

    def spec(entry: dict[str, Any]) -> TensorSpec:
        return TensorSpec(tuple(entry["shape"]), entry["dtype"], tuple(entry["stride"]))

    inputs = [exchange.decode(entry, spec) for entry in payload["inputs"]]
    try:
        run = run_fake(
            folder / CANDIDATE,
            args,
            kwargs,
            inputs,
            hardware=Hardware.model_validate(payload["hardware"]),
            dtype=payload["dtype"],
            budget_seconds=payload["budget_seconds"],
        )
    except Unfakeable as error:
        return {"unfakeable": " ".join(str(error).split())[:300]}
    return {"run": run.model_dump(mode="json")}


def _arguments(payload: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of `ModelNew`, from JSON."""
    args, kwargs = exchange.decode(payload["arguments"], exchange.inline_tensor)
    return args, kwargs


def _name_the_line_when_stuck(payload: dict[str, Any]) -> None:
    """Shortly before the nursery would kill for lateness."""
    name_the_line_when_stuck(max(0.5, payload["wall_seconds"] - 1.0))


def _plain(leaf: Any) -> bool:
    import torch

    return type(leaf) in (torch.Tensor, torch.nn.Parameter) or isinstance(leaf, exchange.SCALARS)


def compile_all(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Compile every distinct launch for the target: resources, or the first thing the compiler refuses."""
    from egg_graph.evaluator.aot import compile_launch
    from egg_graph.evaluator.faults import KernelFault
    from egg_graph.evaluator.launches import Launch

    _name_the_line_when_stuck(payload)
    hardware = Hardware.model_validate(payload["hardware"])
    resources, findings = [], []
    for entry in payload["launches"]:
        try:
            resources.append(compile_launch(folder / CANDIDATE, Launch.model_validate(entry), hardware))
        except KernelFault as fault:
            findings.append(fault.finding().model_dump())
    return {"resources": [r.model_dump(mode="json") for r in resources], "findings": findings}
