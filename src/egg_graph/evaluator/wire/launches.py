"""What a candidate launched, as values that pass from the interpreter's process to the compiler's as JSON."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from egg_graph.schema import Finding, Knob, Value

ENOUGH = 0.97
"""Fraction of a tensor that counts as all of it, because the last programs may do less than the others."""


class Launch(Value):
    """One `kernel[grid](...)`: what its compilation needs, and what it moved and computed."""

    kernel: str
    """Name of the `@triton.jit` function."""
    line: int
    """Line of the kernel's `def` in the candidate."""
    launched_at: int = 0
    """Line of the launch in the candidate."""
    grid: tuple[int, int, int]
    signature: dict[str, Any]
    """Parameter -> `*fp32`, `i32`, `u1`, `constexpr`, `tensordesc<fp32[128, 32]>`; a list of these for a tuple."""
    constexprs: dict[str, Any] = Field(default_factory=dict)
    """Path of a parameter (`BLOCK`, `shape.1`) -> constant, as `encode_constant` writes it."""
    divisible_by_16: tuple[str, ...] = ()
    """Paths of parameters that the launcher specialises as multiples of 16: pointers by address, integers by value."""
    options: dict[str, Knob] = Field(default_factory=dict)
    """`num_warps`, `num_stages`, … as the launch gives them."""
    arguments: dict[str, str] = Field(default_factory=dict)
    """Tensor argument -> `float32[16, 1024]`."""
    numbers: dict[str, str] = Field(default_factory=dict)
    """Path of a number argument -> its value, as Python writes it."""
    configs: tuple[dict[str, Knob], ...] = ()
    """All autotune configurations; the first was launched."""
    alternatives: tuple["Launch", ...] = ()
    """The same launch under the other configurations, recorded without a program of it (fake run)."""
    source: str = ""
    """The kernel's source, if the candidate wrote it at run time."""
    captured: dict[str, Any] = Field(default_factory=dict)
    """Name -> value that a nested kernel captured, as `encode_captured` writes it."""
    programs: int
    """Programs in the grid."""
    executed: int
    """Programs that were interpreted. The counts below are estimates, scaled from these to the whole grid, except the
    two lower bounds."""
    load_bytes: float = 0.0
    """Bytes that its loads request, before any cache; masked-off lanes do not count."""
    store_bytes: float = 0.0
    """Bytes that its stores and atomics request; masked-off lanes do not count."""
    compulsory_bytes: float = 0.0
    """Lower bound of DRAM traffic [bytes]: every tensor read and every tensor written, once. What programs do that were
    not interpreted is bounded as `ProgramCounts.lower_bound` says."""
    dot_flops: dict[str, float] = Field(default_factory=dict)
    """Operand type and precision (`fp32/tf32`, `bf16`) -> 2*M*N*K over all `tl.dot`."""
    least_dot_flops: dict[str, float] = Field(default_factory=dict)
    """Lower bound of `dot_flops`, bounded alike."""
    atomics: float = 0.0
    """Elements updated atomically."""
    seconds: float = 0.0
    """Time that interpreting took."""

    @property
    def cooperative(self) -> bool:
        """Whether all of its programs are to be resident on the GPU at once."""
        return bool(self.options.get("launch_cooperative_grid"))

    @property
    def left_out(self) -> int:
        """Programs that were not interpreted."""
        return self.programs - self.executed

    @property
    def requested_bytes(self) -> float:
        """Bytes that loads, stores and atomics request together."""
        return self.load_bytes + self.store_bytes


def describe_configuration(constexprs: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """Describe the integer constants and the options of a launch: `BLOCK=64, num_warps=4`."""
    knobs = {**{name: value for name, value in constexprs.items() if isinstance(value, int)}, **options}
    return ", ".join(f"{name}={value}" for name, value in knobs.items())


class LibraryCall(Value):
    """One call of an ATen operator that runs on the device beside the kernels."""

    name: str
    bytes: float
    """Bytes of its operands and results, each once."""
    flops: float = 0.0
    """Floating-point operations of matrix products, convolutions and attention; 0 for other operators."""
    counted: bool = True
    """Whether `flops` could be counted; 0 stands for what could not, so that bounds made of it stay lower bounds."""
    dtype: str = ""
    """Dtype of the first tensor operand, as `float32`."""
    outputs: tuple[str, ...] = ()
    """Results, as `float32[16, 1024]`."""
    result_bytes: int = 0
    """Bytes of its results."""


class Reach(Value):
    """An upper bound on how much of one tensor a run reads or writes, if all programs are like the interpreted ones."""

    tensor: Literal["input", "output"]
    index: int
    """Position among the inputs, or among the outputs' leaves."""
    nbytes: float
    """Size of the tensor."""
    most: float
    """Most bytes that can be read of an input or written of an output; 0 if no interpreted launch touched it."""

    @property
    def short(self) -> bool:
        """Whether part of the tensor is certainly left out."""
        return 0 < self.most < ENOUGH * self.nbytes


class FakeRun(Value):
    """One forward at full shape on tensors without memory: what it launches, moves and computes."""

    launches: tuple[Launch, ...]
    library: tuple[LibraryCall, ...] = ()
    """Calls of ATen operators beside the launches."""
    outputs: tuple[str, ...] = ()
    """Leaves of the output as `float32[16, 1024]`."""
    reaches: tuple[Reach, ...] = ()
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0

    @property
    def triton_share(self) -> float:
        """Fraction of the compulsory DRAM bytes that the candidate's own kernels move; 0 if there are no bytes."""
        own = sum(launch.compulsory_bytes for launch in self.launches)
        total = own + sum(call.bytes for call in self.library)
        return own / total if total else 0.0


def encode_constant(value: Any) -> Any:
    """Write a compile-time constant as JSON. Dtypes of Triton and PyTorch and functions become tagged objects.

    Raises:
        TypeError: if the value has no JSON form.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return {"tuple": [encode_constant(item) for item in value]}
    if type(value).__name__ == "constexpr":
        return encode_constant(value.value)
    if type(value).__name__ == "dtype":
        return {"dtype": str(value)}
    name = getattr(value, "__name__", None)
    if name is not None:
        return {"function": name}
    raise TypeError(f"a constexpr of type {type(value).__name__} cannot be recorded")


def encode_captured(value: Any) -> Any:
    """Write a value that a nested kernel captured: as `encode_constant`, but a `constexpr` stays one.

    Raises:
        TypeError: if the value has no JSON form.
    """
    return {"constexpr": encode_constant(value)} if type(value).__name__ == "constexpr" else encode_constant(value)


def decode_captured(value: Any, functions: dict[str, Any]) -> Any:
    """Read what `encode_captured` wrote.

    Raises:
        KeyError: if a function is not in `functions`.
    """
    if isinstance(value, dict) and "constexpr" in value:
        from triton.language import constexpr

        return constexpr(decode_constant(value["constexpr"], functions))
    return decode_constant(value, functions)


def decode_constant(value: Any, functions: dict[str, Any]) -> Any:
    """Read what `encode_constant` wrote; `functions` maps the names of the candidate's functions to them.

    Raises:
        KeyError: if a function is not in `functions`.
    """
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(decode_constant(item, functions) for item in value["tuple"])
    if "dtype" in value:
        return _dtype(value["dtype"])
    return functions[value["function"]]


def _dtype(name: str) -> Any:
    """The dtype of PyTorch (`torch.float16`) or of Triton (`fp16`) with this name."""
    if name.startswith("torch."):
        import torch

        return getattr(torch, name.removeprefix("torch."))
    from triton.language import dtype

    return dtype(name)
