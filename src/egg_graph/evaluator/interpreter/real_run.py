"""A real run: every program, real memory, real values, on shrunk shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egg_graph.evaluator.wire.launches import Launch
from egg_graph.schema import Finding, Hardware

if TYPE_CHECKING:
    from egg_graph.evaluator.interpreter.run_state import Session


@dataclass
class RealRun:
    """What one forward gave and did."""

    output: Any
    """As returned: CPU tensors in any structure."""
    launches: list[Launch]
    races: list[Finding] = field(default_factory=list)
    """`write_race`: what a serial interpreter computes, but a GPU may not."""
    elsewhere: list[Finding] = field(default_factory=list)
    """`wrong_device`: leaves that lie on the host."""
    unwritten: list[Finding] = field(default_factory=list)
    """`unwritten_output`: exact, for leaves whose memory came from `torch.empty*` and only kernels wrote."""
    library: tuple[str, ...] = ()
    """ATen operators that compute or move, each once; views and allocations are not among them."""
    results: Mapping[str, int] = field(default_factory=dict)
    """Bytes of all results of each of them."""
    changed: tuple[str, ...] = ()
    """Global state of PyTorch that the forward left otherwise than it found it."""
    moves_only: bool = False
    """The kernels stored nothing but numbers that they had loaded, zeros and ones."""
    made_by: str = ""
    """The ATen operator that had computed the whole answer, bit for bit, from nothing that a kernel wrote."""
    read_back: Mapping[str, int] = field(default_factory=dict)
    """Numbers that forward read from the GPU's memory to the host, by the function that did."""
    missing: list[Any] | None = None
    """Of a run with `whole_steps` that left programs out: for each leaf, which elements were to come from them."""
    cut_short: bool = False
    """Programs were left out, and `missing` cannot say what would have come from them."""


class RealModel:
    """A candidate loaded once and called on CPU tensors under the guard, as often as wanted.

    Runs in a process that was started with TRITON_INTERPRET=1. Patches Triton and `torch.cuda` for good.

    Args:
        module_path: the candidate's file.
        init_args: of `ModelNew`.
        init_kwargs: of `ModelNew`.
        seed: for `torch.manual_seed`, before the constructor.
        hardware: the target whose properties the pretended GPU reports.
        dtype: what floating parameters are cast to (`bfloat16` under the bf16 policy).

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
    ) -> None:
        from egg_graph.evaluator.interpreter.install import install

        install()
        import torch

        from egg_graph.evaluator.device.simulated import pretend_gpu
        from egg_graph.evaluator.host.candidate import construct, load_module, own_tensors
        from egg_graph.evaluator.interpreter.address_space import AddressSpace
        from egg_graph.evaluator.interpreter.allocations import Poison
        from egg_graph.evaluator.interpreter.host_memory import HostMemory
        from egg_graph.evaluator.interpreter.trials import Trials

        pretend_gpu(hardware)
        self.path, self.hardware = Path(module_path).resolve(), hardware
        self.trials = Trials(seed)
        self.memory = AddressSpace()
        self.poison = Poison(self.memory)
        self.host = self.memory.host = HostMemory()
        with self._guarded():
            module = load_module(self.path)

        def make() -> Any:
            torch.manual_seed(seed)
            made = construct(module, init_args, init_kwargs)
            made = made if dtype is None else made.to(getattr(torch, dtype))
            self.host.take_away(tensor for _, tensor in own_tensors(made))
            return made

        self._make = make
        self.models: list[Any] = []
        self.turn_to(0)

    def turn_to(self, number: int) -> None:
        """Call this instance of `ModelNew` from now on; it is constructed when it is first asked for."""
        with self._guarded():
            while len(self.models) <= number:
                self.models.append(self._make())
        self.model = self.models[number]

    def load(self, state_dict: Mapping[str, Any]) -> None:
        """Give it the reference's weights, strictly, in place; to be done again whenever they change.

        Raises:
            KernelFault: `weights_mismatch`.
        """
        from egg_graph.evaluator.host.candidate import load_weights

        with self._guarded():
            load_weights(self.model, state_dict)

    def assign(self, state_dict: Mapping[str, Any]) -> None:
        """Other weights in place, tensor by tensor, as an optimizer moves them."""
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
        whole_steps: int | None = None,
    ) -> RealRun:
        """One forward.

        Args:
            inputs: floating tensors in the dtype of the precision policy, on the CPU.
            seed: for `torch.manual_seed`, before.
            silent: the candidate's Triton kernels do nothing when launched.
            gradients: called where gradients are enabled, though nothing asks for one.
            leftovers: fresh memory holds any numbers, and no poison.
            whole_steps: accesses and turns of loops after which a sample stands for the programs that are left.

        Raises:
            KernelFault: `out_of_bounds` (also int32 overflow), `unsupported_in_kernel` (the interpreter cannot run
                it), or `exception` inside of a kernel.
            Exception: whatever the candidate's own Python raises, unchanged.
        """
        import torch

        from egg_graph.evaluator.host.candidate import own_tensors
        from egg_graph.evaluator.host.library_state import changes, settings
        from egg_graph.evaluator.interpreter.library_calls import LibraryRecorder
        from egg_graph.evaluator.interpreter.ready import Ready
        from egg_graph.evaluator.wire.fresh_memory import Leftovers

        if gradients:
            for _, tensor in own_tensors(self.model):
                tensor.requires_grad_(False)
        ready = Ready(self.memory)
        recorder = LibraryRecorder(ready)
        self.poison.leftovers = Leftovers(seed) if leftovers else None
        with self._guarded(silent=silent) as session, recorder:
            session.whole_steps = whole_steps
            torch.manual_seed(seed)
            with torch.set_grad_enabled(gradients):
                before = settings()
                recorder.recording = True
                with self.host.watched():
                    output = self.model(*inputs)
                recorder.recording = False
                changed = changes(before, settings())
        partly = any(launch.executed < launch.programs for launch in session.launches)
        missing = self.poison.missing(output) if partly and _last_alone(session.launches) else None
        unwritten = [] if silent or partly else self.poison.unwritten(output)
        results: dict[str, int] = {}
        for call in recorder.calls:
            results[call.name] = call.result_bytes + results.get(call.name, 0)
        moves_only = bool(session.launches) and not session.computing_launches
        return RealRun(
            output,
            session.launches,
            list(session.races.values()),
            self.host.holds(output),
            unwritten,
            tuple(results),
            results,
            changed,
            moves_only,
            ready.made(output),
            dict(self.host.read),
            missing=missing,
            cut_short=partly and missing is None,
        )

    def let_go(self) -> None:
        """Forget what was kept of tensors, so that none lives on for the interpreter's sake."""
        self.poison.allocations.clear()
        self.memory.forget()

    @contextmanager
    def _guarded(self, *, silent: bool = False) -> Iterator[Session]:
        from egg_graph.evaluator.interpreter.cuda_mode import PretendCuda
        from egg_graph.evaluator.interpreter.run_state import Session, running

        session = Session("real", str(self.path), self.memory, self.hardware, silent=silent, trials=self.trials)
        with running(session), PretendCuda(self.host), self.poison:
            yield session


def _last_alone(launches: list[Launch]) -> bool:
    """Whether only the last launch left programs out, and none of it adds to what another has to finish."""
    *earlier, last = launches
    return all(launch.executed == launch.programs for launch in earlier) and not last.atomics


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
    loaded = RealModel(module_path, init_args, init_kwargs, seed=seed, hardware=hardware, dtype=dtype)
    if state_dict is not None:
        loaded.load(state_dict)
    return loaded.call(inputs, seed=seed)
