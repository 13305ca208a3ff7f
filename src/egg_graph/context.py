"""Context: the knobs of one run, with the descriptions and choices that LangGraph Studio draws."""

from dataclasses import dataclass, field, fields
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from egg_graph.schema import BadInput, Precision, StageName

ATTEMPTS_CEILING = 1000
"""The most attempts that `max_attempts` may allow; the graph's recursion limit is derived from it."""

Device = Literal["auto", "gpu", "none"]
Count = Annotated[int, Field(ge=0)]


def told(description: str) -> dict[str, str]:
    """Metadata of a knob: the description that its JSON Schema shows."""
    return {"description": description}


@dataclass(kw_only=True, frozen=True)
class Context:
    """The knobs of one run; every one has a default.

    Raises:
        BadInput: if a value is not one of a knob's choices or out of its range.
    """

    precision: Precision = field(
        default="tf32",
        metadata=told(
            "Precision policy, binding kernel and baseline alike. ieee: dtypes as declared, fp32 products exact; tf32: "
            "operands of fp32 products may be rounded to TF32; bf16, fp16: parameters and floating inputs cast."
        ),
    )
    target: str = field(
        default="auto",
        metadata=told(
            "GPU to write for: a key such as h100 or mi300x; auto takes the machine's own GPU, without one h200."
        ),
    )
    device: Device = field(
        default="auto",
        metadata=told(
            "Where kernels are judged. gpu: insist on one; none: prove without one; auto: a GPU if there is one."
        ),
    )
    profile: bool = field(
        default=True,
        metadata=told("Read the stage's Nsight Compute metrics of every right kernel, on a GPU that allows it."),
    )
    max_attempts: Annotated[int, Field(ge=1, le=ATTEMPTS_CEILING)] = field(
        default=24, metadata=told("Kernels evaluated in the whole run.")
    )
    max_repairs: Count = field(
        default=3, metadata=told("Repairs in a row of one broken kernel, before it is given up.")
    )
    max_optimizations: Count = field(default=2, metadata=told("Optimizations that each stage may try."))
    max_configs: Count = field(
        default=12, metadata=told("Configurations in one sweep of the tuner, the current one included.")
    )
    max_seconds: Annotated[float, Field(gt=0)] = field(
        default=3600.0, metadata=told("Seconds of work, after which no new attempt starts [s].")
    )
    max_tokens: Count = field(
        default=2_000_000,
        metadata=told("Model tokens, in and out together, after which no new attempt starts; 0 for no limit."),
    )
    stages: tuple[StageName, ...] = field(
        default=get_args(StageName), metadata=told("Stages that run; leave some out to measure what each is worth.")
    )
    tune: bool = field(default=True, metadata=told("Sweep each stage's knobs when the stage has its kernel."))
    triton_only: bool = field(
        default=False, metadata=told("Forbid library calls (cuBLAS, cuDNN) beside the kernel's own Triton.")
    )
    expert_seed: bool = field(
        default=False, metadata=told("Show the coder the embedded expert's kernel, as a seed that it must beat.")
    )
    knowledge_dir: str | None = field(
        default=None,
        metadata=told("Folder with principles and hardware specifications of your own, beside those that ship."),
    )

    def __post_init__(self) -> None:
        for name, adapter in _adapters().items():
            given = getattr(self, name)
            try:
                value = adapter.validate_python(given)
            except ValidationError as error:
                raise BadInput(_told_wrong(name, error)) from error
            object.__setattr__(self, name, value)


def _told_wrong(name: str, error: ValidationError) -> str:
    """What the knob must be, and what was given, in one line."""
    first = error.errors(include_url=False)[0]
    wanted = first["msg"].removeprefix("Value error, ").replace("Input should", "must", 1).partition(", unable")[0]
    return f"{name} {wanted}, not {first['input']!r}"


def check_device(device: Device) -> None:
    """Refuse to insist on a GPU where there is none.

    Raises:
        BadInput: if `device` is `gpu` and torch sees no GPU.
    """
    if device != "gpu":
        return
    from egg_graph.evaluator import gpu_present

    if not gpu_present():
        raise BadInput("device gpu: torch sees no GPU on this machine; --device none proves kernels without one")


@cache
def _adapters() -> dict[str, TypeAdapter[Any]]:
    hints = get_type_hints(Context, include_extras=True)
    return {f.name: TypeAdapter(hints[f.name]) for f in fields(Context)}


def resolve(context: object) -> Context:
    """The Context of a run, whatever the runtime carries.

    An omitted context is None. Inside another graph it is that graph's own object: its attribute `egg` is taken if it
    is a Context, so that a parent can steer the run; otherwise the defaults hold.
    """
    if isinstance(context, Context):
        return context
    carried = getattr(context, "egg", None)
    return carried if isinstance(carried, Context) else Context()


def recursion_limit(attempts: int = ATTEMPTS_CEILING) -> int:
    """Steps that a run of `attempts` attempts can take at most.

    Three nodes lead to an attempt (analyst or debugger, coder, evaluator), each stage adds open, tuner and close, and
    the frame prepare, baseline, two groups of stages and conclude.
    """
    return 3 * attempts + 4 * 4 + 8
