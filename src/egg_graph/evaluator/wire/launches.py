"""What a candidate launched, as values that cross from the interpreter's process to the compiler's as JSON."""

from typing import Any, Literal

from pydantic import Field

from egg_graph.schema import Finding, Knob, Value

ENOUGH = 0.97
"""Part of a tensor that counts as all of it: programs are alike but for a ragged end."""


class Launch(Value):
    """One `kernel[grid](...)`: all that its compilation needs, and what it moved and computed."""

    kernel: str
    """Name of the `@triton.jit` function."""
    line: int
    """Line of its `def` in the candidate."""
    launched_at: int = 0
    """Line of the candidate that launched it."""
    grid: tuple[int, int, int]
    signature: dict[str, Any]
    """Parameter -> `*fp32`, `i32`, `u1`, `constexpr`, `tensordesc<fp32[128, 32]>`, or a list of these (a tuple)."""
    constexprs: dict[str, Any] = Field(default_factory=dict)
    """Path of a parameter (`BLOCK`, `shape.1`) -> constant, written by `encode_constant`."""
    divisible_by_16: tuple[str, ...] = ()
    """Paths of pointers (address) and integers (value) that the launcher specialises as multiples of 16."""
    options: dict[str, Knob] = Field(default_factory=dict)
    """`num_warps`, `num_stages`, ... as given."""
    arguments: dict[str, str] = Field(default_factory=dict)
    """Tensor arguments: name -> `float32[16, 1024]`."""
    configs: tuple[dict[str, Knob], ...] = ()
    """All autotune configurations; the first was launched."""
    programs: int
    executed: int
    """How many of the programs were interpreted; the counts below are estimates, scaled from these to all, but for the
    two that say otherwise."""
    load_bytes: float = 0.0
    """Bytes its loads ask for, masked-off lanes excluded, before any cache."""
    store_bytes: float = 0.0
    """Bytes its stores and atomics ask for."""
    compulsory_bytes: float = 0.0
    """Lower bound of DRAM traffic: every tensor read and every tensor written, once, as far as programs surely ask for
    it: one that was not interpreted counts as the least of those that were."""
    dot_flops: dict[str, float] = Field(default_factory=dict)
    """Operand type and precision (`fp32/tf32`, `bf16`) -> 2*M*N*K over all `tl.dot`."""
    least_dot_flops: dict[str, float] = Field(default_factory=dict)
    """The same from below: a program that was not interpreted counts as the least of those that were."""
    atomics: float = 0.0
    """Elements updated atomically."""
    seconds: float = 0.0

    @property
    def requested_bytes(self) -> float:
        return self.load_bytes + self.store_bytes


class LibraryCall(Value):
    """One ATen operator that runs on the device beside the kernels."""

    name: str
    bytes: float
    """Operands read plus results written, each once."""
    flops: float = 0.0
    """Of matrix products and convolutions; 0 for the rest."""
    dtype: str = ""
    """Of the first tensor operand, as `float32`."""
    outputs: tuple[str, ...] = ()
    result_bytes: int = 0
    """Of the results."""


class Reach(Value):
    """What the programs of a run can ask of one tensor at most, if all are like those that were interpreted."""

    tensor: Literal["input", "output"]
    index: int
    nbytes: float
    most: float
    """Bytes read of an input, or written of an output; 0 where no launch that was interpreted did."""

    @property
    def short(self) -> bool:
        """Whether some of it is surely left out."""
        return 0 < self.most < ENOUGH * self.nbytes


class FakeRun(Value):
    """One forward at full shape, without memory: what is launched, moved and computed."""

    launches: tuple[Launch, ...]
    library: tuple[LibraryCall, ...] = ()
    outputs: tuple[str, ...] = ()
    """Leaves of the output, as `float32[16, 1024]`."""
    reaches: tuple[Reach, ...] = ()
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0

    @property
    def triton_share(self) -> float:
        """Part of the compulsory DRAM bytes that the candidate's own kernels move; 0 if nothing moves any."""
        own = sum(launch.compulsory_bytes for launch in self.launches)
        total = own + sum(call.bytes for call in self.library)
        return own / total if total else 0.0


def encode_constant(value: Any) -> Any:
    """Write a compile-time constant as JSON. Triton dtypes and functions become tagged objects.

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


def decode_constant(value: Any, functions: dict[str, Any]) -> Any:
    """Read back `encode_constant`; `functions` gives the candidate's functions by name.

    Raises:
        KeyError: if a function is not among them.
    """
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(decode_constant(item, functions) for item in value["tuple"])
    if "dtype" in value:
        from triton.language import dtype

        return dtype(value["dtype"])
    return functions[value["function"]]
