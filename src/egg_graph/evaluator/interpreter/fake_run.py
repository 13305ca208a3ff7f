"""A fake run: the full shape on PyTorch's fake tensors, without memory; a sample of programs on virtual addresses."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from egg_graph.evaluator.wire.faults import Unfakeable
from egg_graph.evaluator.wire.launches import FakeRun
from egg_graph.schema import Hardware

MakeInputs = Callable[[], Sequence[Any]] | Sequence[Any]


@dataclass(frozen=True)
class TensorSpec:
    """Shape, dtype and stride of an input tensor."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    """Name of a `torch` dtype."""
    stride: tuple[int, ...] | None = None
    """Strides in elements; None: contiguous."""
    min_value: int | None = None
    """Smallest integer that the tensor may hold; None where that is not known."""
    max_value: int | None = None
    """Largest integer that the tensor may hold; None where that is not known."""
    numbers: tuple[int, ...] | None = None
    """The integers that it always holds, as they lie in memory; None where they are not known."""


def run_fake(
    module_path: str | Path,
    init_args: Sequence[Any],
    init_kwargs: Mapping[str, Any],
    make_inputs: MakeInputs,
    *,
    hardware: Hardware,
    sample: int = 6,
    dtype: str | None = None,
    budget_seconds: float = 5.0,
    random_loads: bool = False,
    max_loads: bool = False,
) -> FakeRun:
    """Run a candidate's forward at full shape on tensors that have no memory.

    Proves for the sampled programs that no access leaves its tensor and no index overflows int32. Records every launch
    as the compiler will see it. Loads give zeros, so gathers read index 0, unless `random_loads` or `max_loads` is set;
    loads of an input whose integers are all positive give the smallest, of one whose numbers are known, these.

    Args:
        module_path: the candidate's file.
        init_args: positional arguments of `ModelNew`.
        init_kwargs: keyword arguments of `ModelNew`.
        make_inputs: a function that makes the inputs of `forward` (called under fake tensors), or the inputs
            themselves: `TensorSpec` for tensors (at any depth of lists, tuples and dicts), other values as they are.
        hardware: the target.
        sample: programs to interpret per launch: the first, the last two and random ones between; at least 4, or 0 to
            record launches alone.
        dtype: `torch` dtype that floating parameters are cast to (`bfloat16` under the bf16 policy), and inputs but
            those that a `TensorSpec` stands for; None keeps theirs.
        budget_seconds: seconds per launch after which no further program is sampled (at least two are),
            and a third of the seconds of the whole run after which no more than two are.
        random_loads: loads give random integers from 0 to 7.
        max_loads: loads of an input give its `max_value` where that is known.

    Raises:
        KernelFault: as `RealModel` and its `call`.
        Unfakeable: if the candidate needs values (`.item()`, branching on data).
        Exception: whatever the candidate's own Python raises, unchanged.
    """
    from egg_graph.evaluator.interpreter.install import install

    install()
    import torch
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode

    from egg_graph.evaluator.device.simulated import simulate_gpu
    from egg_graph.evaluator.host.candidate import construct, load_module
    from egg_graph.evaluator.interpreter.address_space import AddressSpace
    from egg_graph.evaluator.interpreter.coverage import reaches, with_written_outputs
    from egg_graph.evaluator.interpreter.cuda_mode import FakeTensorCudaMode
    from egg_graph.evaluator.interpreter.library_calls import LibraryRecorder
    from egg_graph.evaluator.interpreter.repeated import RepeatedLaunches
    from egg_graph.evaluator.interpreter.run_state import RunState, running

    started = time.perf_counter()
    simulate_gpu(hardware)
    path = Path(module_path).resolve()
    run = RunState("fake", str(path), AddressSpace(), sample, budget_seconds)
    run.repeated, run.max_loads = RepeatedLaunches(), max_loads
    run.load_rng = np.random.default_rng(0) if random_loads else None
    recorder = LibraryRecorder()
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with running(run), fake_mode, FakeTensorCudaMode(str(path)), recorder:
            module = load_module(path)
            model = construct(module, init_args, init_kwargs)
            if dtype is not None:
                model = model.to(getattr(torch, dtype))
            inputs, known = _inputs(make_inputs, dtype, random_loads=random_loads, max_loads=max_loads)
            run.known_by_storage = recorder.known_by_storage = known
            recorder.recording = True
            with torch.no_grad():
                output = model(*inputs)
            recorder.recording = False
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise Unfakeable(f"the candidate depends on tensor values: {error}") from error
    return FakeRun(
        launches=with_written_outputs(run.launches, run.counts, run.memory, recorder, output),
        library=tuple(recorder.calls),
        outputs=_describe_leaves(output),
        reaches=reaches(run.memory, recorder, inputs, output),
        seconds=round(time.perf_counter() - started, 3),
    )


def _inputs(
    make_inputs: MakeInputs, dtype: str | None, *, random_loads: bool, max_loads: bool
) -> tuple[list[Any], dict[int, Any]]:
    """Make the inputs. Return them with the integers that loads of them give, where these are known, by storage key."""
    import torch
    from torch.utils._pytree import tree_map

    from egg_graph.evaluator.interpreter.library_calls import memory_of

    known: dict[int, Any] = {}

    def place(value: Any) -> Any:
        if isinstance(value, TensorSpec):
            stride = value.stride if value.stride is not None else _contiguous(value.shape)
            made = torch.empty_strided(value.shape, stride, dtype=getattr(torch, value.dtype))
            if integers := _known_integers(value, random_loads=random_loads, max_loads=max_loads):
                known[memory_of(made)] = np.array(integers)
            return made  # of the dtype that it is to have
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(getattr(torch, dtype)) if dtype is not None and value.is_floating_point() else value

    values = make_inputs() if callable(make_inputs) else make_inputs
    return [tree_map(place, value) for value in values], known


def _known_integers(spec: TensorSpec, *, random_loads: bool, max_loads: bool) -> tuple[int, ...]:
    """The integers that loads of an input give: all of them, or one for all; empty where they are not known.

    The smallest one counts if it is positive: a negative one is a padding index, and programs would skip their work.
    """
    if spec.numbers is not None:
        return spec.numbers
    end = spec.max_value if max_loads else spec.min_value
    if random_loads or end is None or (end <= 0 and not max_loads):
        return ()
    return (end,)


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(1, size)
    return tuple(reversed(strides))


def _describe_leaves(output: Any) -> tuple[str, ...]:
    import torch
    from torch.utils._pytree import tree_leaves

    from egg_graph.evaluator.interpreter.arguments import describe

    return tuple(describe(x) if isinstance(x, torch.Tensor) else type(x).__name__ for x in tree_leaves(output))
