"""Jobs of a confined child for the ladder without a GPU, each on the candidate in `candidate.py` of its folder.

A job gets JSON and the files of its folder, runs candidate code, and returns JSON. Its answer is data of an untrusted
process: the judge compares the bytes it wrote and believes no verdict of its own.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from egg_graph.evaluator.host.child import name_the_line_when_stuck
from egg_graph.evaluator.wire import exchange
from egg_graph.schema import Hardware

CANDIDATE = "candidate.py"


def warm_up() -> None:
    """Import, before any fork, what every job needs. Nothing here may touch CUDA."""
    import torch
    import triton.language as _language  # noqa: F401 - imported for its weight

    if os.environ.get("TRITON_INTERPRET") != "1":
        _warm_up_compiler()
        return
    from torch._subclasses.fake_tensor import FakeTensorMode

    from egg_graph.evaluator.interpreter import install
    from egg_graph.evaluator.interpreter import library_calls as _library  # noqa: F401 - imported for its weight

    install()
    with FakeTensorMode(), torch.no_grad():
        torch.nn.functional.linear(torch.empty(2, 2), torch.empty(2, 2))


def _warm_up_compiler() -> None:
    """Import what every compilation needs, and hash the compiler once (0.5 s)."""
    from importlib import import_module

    for module in (
        *("triton.backends", "triton.compiler.code_generator", "triton.experimental.gluon"),
        *("egg_graph.evaluator.aot.compile", "egg_graph.evaluator.aot.resources"),
    ):
        import_module(module)
    from triton.runtime.cache import triton_key

    triton_key()


def interpret(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Run several forwards of one candidate in the guarded interpreter; `InterpretedCalls` says what each leaves.

    Each may take `call_seconds`: an interpreter is slow, and many calls are no fault of the candidate.

    Each entry of `payload["calls"]` names the files of its inputs and, where they change, of its weights; `reuse`
    puts the inputs where the last call found its own; `silent` lets Triton kernels do nothing; for the rest see
    `problem.plan.Manner`. After `optional_seconds` of processor time, or half of `call_seconds`, times the call's
    `patience`, it is left out (without one never), and those marked `tuning` as soon as every configuration of every
    autotuned kernel has run. After `whole_steps` accesses and turns of loops in one call, if that is not None, a sample
    stands for the programs that are left. With `zero_lanes`, lanes masked off without `other` are 0 and no poison.
    """
    from egg_graph.evaluator.interpreter import RealModel
    from egg_graph.evaluator.worker.interpreted import InterpretedCalls

    seconds = payload["call_seconds"]
    name_the_line_when_stuck(seconds, fatal=True)
    args, kwargs = _arguments(payload)
    model = RealModel(
        folder / CANDIDATE,
        args,
        kwargs,
        seed=payload["calls"][0]["seed"],
        hardware=Hardware.model_validate(payload["hardware"]),
        dtype=payload["dtype"],
        zero_lanes=payload["zero_lanes"],
    )
    calls, started = InterpretedCalls(model, folder, payload["whole_steps"]), time.monotonic()
    silent = []
    for index, call in enumerate(payload["calls"]):
        patience = call["patience"]
        late = patience is not None and time.process_time() > patience * payload["optional_seconds"]
        late = late or (patience is not None and time.monotonic() - started > patience * seconds / 2)
        if call["silent"]:
            silent.append((index, call))
        elif not late and (not call["tuning"] or model.trials.untried()):
            name_the_line_when_stuck(seconds, fatal=True)
            calls.make(index, call)
    calls.finish()
    for index, call in silent:
        name_the_line_when_stuck(seconds, fatal=True)
        calls.make_silent(index, call)
    return {}


def launches(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Run one forward at full shape on tensors without memory; return a `FakeRun`."""
    from egg_graph.evaluator.interpreter import TensorSpec, run_fake
    from egg_graph.evaluator.wire.faults import Unfakeable

    name_the_line_when_stuck(max(0.5, payload["wall_seconds"] - 1.0))  # shortly before the fork server ends it
    args, kwargs = _arguments(payload)

    def spec(entry: dict[str, Any]) -> TensorSpec:
        shape, stride, numbers = tuple(entry["shape"]), tuple(entry["stride"]), entry["numbers"]
        ends = entry["least"], entry["greatest"]
        return TensorSpec(shape, entry["dtype"], stride, *ends, numbers=numbers and tuple(numbers))

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
            sample=payload["sample"],
            random_loads=payload["fill"],
            max_loads=payload["greatest"],
        )
    except Unfakeable as error:
        return {"unfakeable": " ".join(str(error).split())[:300]}
    return {"run": run.model_dump(mode="json")}


def _arguments(payload: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Decode the arguments of `ModelNew`."""
    args, kwargs = exchange.decode(payload["arguments"], exchange.inline_tensor)
    return args, kwargs
