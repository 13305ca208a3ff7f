"""A real run: every program, real memory, real values, on shrunk shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egg_graph.evaluator.wire.faults import CutShort
from egg_graph.evaluator.wire.launches import Launch
from egg_graph.schema import Finding, Hardware

if TYPE_CHECKING:
    from egg_graph.evaluator.interpreter.run_state import RunState


@dataclass
class RealRun:
    """What one forward returned and did."""

    output: Any
    """What forward returned: CPU tensors in any structure."""
    launches: list[Launch]
    races: list[Finding] = field(default_factory=list)
    """`write_race` findings: what a serial interpreter computes, but a GPU may not."""
    wrong_device: list[Finding] = field(default_factory=list)
    """`wrong_device` findings: leaves of the output in host memory."""
    unwritten: list[Finding] = field(default_factory=list)
    """`unwritten_output` findings: exact, for leaves from `torch.empty*` that only kernels wrote."""
    library: tuple[str, ...] = ()
    """ATen operators that computed or moved numbers, each once; views and allocations are left out."""
    results: Mapping[str, int] = field(default_factory=dict)
    """ATen operator -> bytes of all its results."""
    library_read: float = 0.0
    """Bytes that the computing ones among these operators read."""
    changed: tuple[str, ...] = ()
    """Names of PyTorch's global settings that the forward changed."""
    moves_only: bool = False
    """Whether the kernels stored only numbers that they had loaded, zeros and ones."""
    made_by: str = ""
    """ATen operator that had computed the whole output, bit for bit, from nothing that a kernel wrote; else empty."""
    copied: bool = False
    """Whether an operator was handed a kernel's plain copy of what was given, or of what operators had computed."""
    read_back: Mapping[str, int] = field(default_factory=dict)
    """Function -> numbers that forward read with it from GPU memory to the host."""
    missing: list[Any] | None = None
    """For each leaf, which elements the programs left out by `step_budget` were to write; None if none was left out."""
    cut_short: bool = False
    """Whether programs were left out and `missing` cannot say what they were to write."""


class RealModel:
    """A candidate that is loaded once and called on CPU tensors under the guard, as often as wanted.

    Runs in a process that was started with TRITON_INTERPRET=1. Patches Triton and `torch.cuda` for good.

    Args:
        module_path: the candidate's file.
        init_args: positional arguments of `ModelNew`.
        init_kwargs: keyword arguments of `ModelNew`.
        seed: for `torch.manual_seed`, before each construction.
        hardware: the target, whose properties the simulated GPU reports.
        dtype: `torch` dtype that floating parameters are cast to (`bfloat16` under the bf16 policy); None keeps theirs.

    Raises:
        KernelFault: `syntax_error`, `missing_entry_point`.
        Exception: whatever the candidate's own Python raises, unchanged.
        RuntimeError: if the process was not started with TRITON_INTERPRET=1.
    """

    def __init__(
        self,
        module_path: str | Path,
        init_args: Sequence[Any],
        init_kwargs: Mapping[str, Any],
        *,
        seed: int = 0,
        hardware: Hardware | None = None,
        dtype: str | None = None,
        zero_lanes: bool = False,
    ) -> None:
        from egg_graph.evaluator.interpreter.install import install

        install()
        import torch

        from egg_graph.evaluator.device.simulated import simulate_gpu
        from egg_graph.evaluator.host.candidate import construct, load_module, own_tensors
        from egg_graph.evaluator.interpreter.address_space import AddressSpace
        from egg_graph.evaluator.interpreter.allocations import PoisonMode
        from egg_graph.evaluator.interpreter.host_memory import HostMemory
        from egg_graph.evaluator.interpreter.run_state import AutotuneTrials

        simulate_gpu(hardware)
        self.path = Path(module_path).resolve()
        self.trials = AutotuneTrials(seed)
        self.memory = AddressSpace()
        self.poison = PoisonMode(self.memory)
        self.zero_lanes = zero_lanes
        self.undefined_loads: set[str] = set()
        """Loads that masked lanes off and gave no `other` for them, in all calls so far."""
        self.host = self.memory.host = HostMemory()
        with self._guarded():
            module = load_module(self.path)

        def make() -> Any:
            torch.manual_seed(seed)
            made = construct(module, init_args, init_kwargs)
            made = made if dtype is None else made.to(getattr(torch, dtype))
            self.host.move_to_gpu(tensor for _, tensor in own_tensors(made))
            return made

        self._make = make
        self.models: list[Any] = []
        self.use_instance(0)

    def use_instance(self, number: int) -> None:
        """Call this instance of `ModelNew` from now on; construct it when it is first asked for."""
        with self._guarded():
            while len(self.models) <= number:
                self.models.append(self._make())
        self.model = self.models[number]

    def load(self, state_dict: Mapping[str, Any]) -> None:
        """Load the reference's weights strictly, in place. Call it again whenever they change.

        Raises:
            KernelFault: `weights_mismatch`.
        """
        from egg_graph.evaluator.host.candidate import load_weights

        with self._guarded():
            load_weights(self.model, state_dict)

    def assign(self, state_dict: Mapping[str, Any]) -> None:
        """Copy other weights in place, tensor by tensor, as an optimizer's step changes them."""
        import torch

        from egg_graph.evaluator.host.candidate import own_tensors

        with torch.no_grad():
            for name, tensor in own_tensors(self.model):
                if name in state_dict:
                    tensor.copy_(state_dict[name])

    def call(
        self,
        inputs: Sequence[Any],
        *,
        seed: int = 0,
        silent: bool = False,
        gradients: bool = False,
        leftovers: bool = False,
        step_budget: int | None = None,
        on_program: Callable[[int], None] | None = None,
    ) -> RealRun:
        """Run one forward.

        Args:
            inputs: arguments of `forward`; floating tensors in the dtype of the precision policy, on the CPU.
            seed: for `torch.manual_seed`, before the forward.
            silent: the candidate's Triton kernels do nothing when launched.
            gradients: enable gradients, though no tensor requires one.
            leftovers: fill fresh memory with ordinary numbers instead of poison.
            step_budget: interpreter steps (memory accesses and loop iterations) after which only a sample of the
                remaining programs is interpreted; None interprets all.
            on_program: called after each program, with how many of its launch are done.

        Raises:
            KernelFault: `out_of_bounds` (also int32 overflow), `unsupported_in_kernel` (the interpreter cannot run
                it), or `exception` inside of a kernel.
            CutShort: for any of these, once a launch has left programs out: later ones build on what it left.
            Exception: whatever the candidate's own Python raises, unchanged.
        """
        import torch

        from egg_graph.evaluator.host.candidate import own_tensors
        from egg_graph.evaluator.host.library_state import changes, settings
        from egg_graph.evaluator.interpreter.library_calls import LibraryRecorder, Provenance
        from egg_graph.evaluator.wire.uninitialized import Leftovers

        if gradients:
            for _, tensor in own_tensors(self.model):
                tensor.requires_grad_(False)
        provenance = Provenance(self.memory, [*inputs, *(tensor for _, tensor in own_tensors(self.model))])
        recorder = LibraryRecorder(provenance)
        self.poison.leftovers = Leftovers(seed) if leftovers else None
        with self._guarded(silent=silent) as run, recorder:
            run.step_budget, run.on_program = step_budget, on_program
            torch.manual_seed(seed)
            with torch.set_grad_enabled(gradients):
                before = settings()
                recorder.recording = True
                with self.host.watched(), _building_on_whole_launches(run):
                    output = self.model(*inputs)
                recorder.recording = False
                changed = changes(before, settings())
        partly = any(launch.left_out for launch in run.launches)
        missing = self.poison.missing(output) if partly and _only_last_is_partial(run.launches) else None
        results = recorder.result_bytes()
        return RealRun(
            output=output,
            launches=run.launches,
            races=list(run.races.values()),
            wrong_device=self.host.findings(output),
            unwritten=[] if silent or partly else self.poison.unwritten(output),
            library=tuple(results),
            results=results,
            library_read=recorder.bytes_read(),
            changed=changed,
            moves_only=bool(run.launches) and not run.computing_launches,
            made_by=provenance.maker(output),
            copied=provenance.copied,
            read_back=dict(self.host.read),
            missing=missing,
            cut_short=partly and missing is None,
        )

    def release(self) -> None:
        """Release every tensor that was kept, so that none outlives its owner because of the interpreter."""
        self.poison.allocations.clear()
        self.memory.forget()

    @contextmanager
    def _guarded(self, *, silent: bool = False) -> Iterator[RunState]:
        """Begin a run: candidate code executes under the guard, with a simulated GPU and poisoned fresh memory."""
        from egg_graph.evaluator.interpreter.cuda_mode import SimulatedCudaMode
        from egg_graph.evaluator.interpreter.run_state import RunState, running

        run = RunState("real", str(self.path), self.memory, silent=silent, trials=self.trials)
        run.zero_lanes, run.undefined_loads = self.zero_lanes, self.undefined_loads
        with running(run), SimulatedCudaMode(self.host), self.poison:
            yield run


@contextmanager
def _building_on_whole_launches(run: RunState) -> Iterator[None]:
    """Turn an error into `CutShort` where a launch before it left programs out."""
    try:
        yield
    except Exception as error:
        if any(launch.left_out for launch in run.launches):
            raise CutShort(f"{type(error).__name__}: {error}") from error
        raise


def _only_last_is_partial(launches: list[Launch]) -> bool:
    """Whether only the last launch left programs out, and it has no atomics, by which programs build on each other."""
    *earlier, last = launches
    return not any(launch.left_out for launch in earlier) and not last.atomics
