"""A real run: every program, real memory, real values, on shrunk shapes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from egg_graph.evaluator.launches import Launch
from egg_graph.schema import Finding, Hardware


@dataclass
class RealRun:
    """What one forward gave and did."""

    output: Any
    """As returned: CPU tensors in any structure."""
    launches: list[Launch]
    races: list[Finding] = field(default_factory=list)
    """`write_race`: what a serial interpreter computes, but a GPU may not."""
    unwritten: list[Finding] = field(default_factory=list)
    """`unwritten_output`: exact, for leaves whose memory came from `torch.empty*` and only kernels wrote."""


def run_real(
    module_path: str | Path,
    init_args: Sequence[Any],
    init_kwargs: Mapping[str, Any],
    state_dict: Mapping[str, Any] | None,
    inputs: Sequence[Any],
    *,
    seed: int = 0,
    hardware: Hardware | None = None,
    dtype: str | None = None,
) -> RealRun:
    """Load a candidate, give `ModelNew` the reference's weights, and run its forward on CPU tensors under the guard.

    Runs in a process that was started with TRITON_INTERPRET=1. Patches Triton and `torch.cuda` for good.

    Args:
        module_path: the candidate's file.
        init_args: of `ModelNew`.
        init_kwargs: of `ModelNew`.
        state_dict: the reference's, loaded strictly; None to keep the candidate's own weights.
        inputs: of `forward`; floating tensors in the dtype of the precision policy. Their device is the CPU.
        seed: for `torch.manual_seed`, before the constructor and again before the forward.
        hardware: the target whose properties the pretended GPU reports.
        dtype: what floating parameters are cast to before the weights are loaded (`bfloat16` under the bf16 policy).

    Raises:
        KernelFault: `syntax_error`, `missing_entry_point`, `weights_mismatch`, `out_of_bounds` (also int32 overflow),
            `unsupported_in_kernel` (the interpreter cannot run it), or `exception` inside of a kernel.
        Exception: whatever the candidate's own Python raises, unchanged.
        RuntimeError: if the process was not started with TRITON_INTERPRET=1.
    """
    from egg_graph.evaluator.interpreter.install import install

    install()
    import torch

    from egg_graph.evaluator.interpreter.allocations import Poison
    from egg_graph.evaluator.interpreter.device import PretendCuda
    from egg_graph.evaluator.interpreter.memory import AddressSpace
    from egg_graph.evaluator.interpreter.module import construct, load_module, load_weights
    from egg_graph.evaluator.interpreter.session import Session, running
    from egg_graph.evaluator.pretend import pretend_gpu

    pretend_gpu(hardware)
    path = Path(module_path).resolve()
    session = Session("real", str(path), AddressSpace(), hardware)
    poison = Poison(session.memory)
    with running(session), PretendCuda(), poison:
        module = load_module(path)
        torch.manual_seed(seed)
        model = construct(module, init_args, init_kwargs)
        if dtype is not None:
            model = model.to(getattr(torch, dtype))
        if state_dict is not None:
            load_weights(model, state_dict)
        torch.manual_seed(seed)
        with torch.no_grad():
            output = model(*inputs)
    return RealRun(output, session.launches, list(session.races.values()), poison.unwritten(output))
