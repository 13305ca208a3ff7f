"""Triton's interpreter under guard: right numbers, exact bounds, races, and a fake run at full shape without memory.

Call it in a process that was started with TRITON_INTERPRET=1. Such a process may import torch and triton, call
`install`, and fork a child per candidate; a child serves one candidate and ends.

    run_fake(module_path, init_args, init_kwargs, make_inputs, *, hardware, sample=6, dtype=None,
             budget_seconds=5.0) -> FakeRun
    RealModel(module_path, init_args, init_kwargs, *, seed=0, hardware=None, dtype=None)
        .load(state_dict)  .call(inputs, seed=0, silent=False) -> RealRun
    install() -> None

`RealRun` holds tensors; `FakeRun` and `Launch` are pydantic values that cross processes as JSON. What is wrong with a
candidate is raised as `KernelFault(kind, message, where, cure)`; its own Python errors come through unchanged.
Importing this package loads neither torch nor triton.
"""

from egg_graph.evaluator.interpreter.fake_run import TensorSpec, run_fake
from egg_graph.evaluator.interpreter.install import install
from egg_graph.evaluator.interpreter.real_run import RealModel, RealRun
from egg_graph.evaluator.wire.faults import KernelFault, Unfakeable
from egg_graph.evaluator.wire.launches import FakeRun, Launch, LibraryCall

__all__ = [
    "FakeRun",
    "KernelFault",
    "Launch",
    "LibraryCall",
    "RealModel",
    "RealRun",
    "TensorSpec",
    "Unfakeable",
    "install",
    "run_fake",
]
