"""Context: the knobs of one run, with the descriptions and choices that LangGraph Studio draws."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from functools import cache, wraps
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from egg_graph.model_requests import DEFAULT_TIMEOUT
from egg_graph.schema import ROLES, BadInput, Domain, Hardware, Precision, StageName

ATTEMPTS_CEILING = 1000
"""Largest value of `max_attempts`. The graph's recursion limit is derived from it."""

WIDEST = 32
"""Largest value of `width`."""

DEFAULT_TARGET = "h200"
"""Hardware key that `auto` means on a machine without a GPU."""

SAME_NAME = 0.85
"""Similarity (0 to 1, difflib) from which a key of a mapping is taken for a knob's name, perhaps misspelt."""

Device = Literal["auto", "gpu", "none"]
Accept = Literal["faster", "right"]
SweepOf = Literal["auto", "stage", "whole", "knobs"]
Count = Annotated[int, Field(ge=0)]
MEASURES = ("calls", "tokens", "dollars", "seconds", "gpu_seconds")
"""What a budget of a part of the run may limit; `gpu_seconds` of stages alone, for no role keeps a GPU at work."""
BUDGETS = frozenset(
    {"max_attempts", "max_calls", "max_tokens", "max_dollars", "max_gpu_seconds", "max_seconds", "budgets", "timeout"}
)
"""Knobs that may be given anew when a run is resumed."""


def describe(description: str) -> dict[str, str]:
    """Metadata of a knob: the description that its JSON Schema shows."""
    return {"description": description}


@dataclass(kw_only=True, frozen=True)
class Context:
    """The knobs of one run, each with a default. An unknown knob and a wrong value are refused with BadInput."""

    precision: Precision = field(
        default="tf32",
        metadata=describe(
            "Precision policy of kernel and baseline alike. ieee: dtypes as declared, fp32 products exact; tf32: "
            "operands of fp32 products may be rounded to TF32; tf32_truncated: a kernel's may be truncated, as a plain "
            "tl.dot does; bf16, fp16: parameters and floating inputs cast."
        ),
    )
    domain: Domain = field(
        default="finite",
        metadata=describe(
            "Inputs on which a kernel has to be right. finite: infinities only where the reference draws or makes "
            "non-finite numbers itself, and elsewhere it is told whether they are preserved; nonfinite: infinities "
            "always."
        ),
    )
    target: str = field(
        default="auto",
        metadata=describe(
            "GPU to write for: a key such as h100 or mi300x; auto takes the judging machine's, without one h200."
        ),
    )
    device: Device = field(
        default="auto",
        metadata=describe(
            "Where kernels are evaluated. auto: on a GPU if there is one; gpu: only on a GPU; none: without a GPU."
        ),
    )
    profile: bool = field(
        default=True,
        metadata=describe(
            "Take Nsight Compute metrics on a GPU that allows it: of every better kernel; "
            "of finalists alone if the team reads none."
        ),
    )
    max_attempts: Annotated[int, Field(ge=1, le=ATTEMPTS_CEILING)] = field(
        default=24, metadata=describe("Most kernels that the whole run evaluates.")
    )
    max_repairs: Count = field(default=3, metadata=describe("Most repairs in a row of one broken kernel."))
    max_optimizations: Count = field(default=2, metadata=describe("Most optimizations that each stage tries."))
    width: Annotated[int, Field(ge=1, le=WIDEST)] = field(
        default=1,
        metadata=describe(
            "How many coders draft from one brief side by side, in every step that writes a seed or carries out a "
            "plan; of their kernels the best goes on. 1 is a single trajectory."
        ),
    )
    max_configs: Count = field(
        default=12,
        metadata=describe(
            "Most configurations in one sweep of the tuner, the current one included; twice as many where one sweep "
            "stands for those of all stages: see sweep."
        ),
    )
    max_seconds: Annotated[float, Field(gt=0)] = field(
        default=3600.0, metadata=describe("Start no new attempt after this much work [s].")
    )
    max_tokens: Count = field(
        default=2_000_000,
        metadata=describe(
            "Send no request to a model after this many tokens, input and output together; 0 means no limit."
        ),
    )
    max_calls: Count = field(
        default=0, metadata=describe("Most requests to models, those that fail included; 0 means no limit.")
    )
    max_dollars: Annotated[float, Field(ge=0)] = field(
        default=0.0,
        metadata=describe(
            "Send no request to a model after this much money [USD]; needs the price of every model; 0 means no limit."
        ),
    )
    budgets: tuple[str, ...] = field(
        default=(),
        metadata=describe(
            "Budgets of single stages and roles, PART.MEASURE=LIMIT each, such as coder.tokens=50000 or "
            "tensor_tiling.calls=4; the measures are calls, tokens,"
            " dollars, seconds and (of stages) gpu_seconds."
        ),
    )
    max_gpu_seconds: Annotated[float, Field(ge=0)] = field(
        default=0.0,
        metadata=describe("Start no new attempt after a GPU was at work for so long [s]; 0 means no limit."),
    )
    timeout: Annotated[float, Field(gt=0)] = field(
        default=DEFAULT_TIMEOUT,
        metadata=describe("Silence of a model's endpoint after which a request counts as failed [s]."),
    )
    stages: tuple[StageName, ...] = field(
        default=get_args(StageName), metadata=describe("Stages that run; leave some out to measure what each is worth.")
    )
    inter_stage_context: bool = field(
        default=True, metadata=describe("Show every stage what the earlier ones tried, what paid and what failed.")
    )
    tune: bool = field(default=True, metadata=describe("Sweep each stage's knobs when the stage has its kernel."))
    sweep: SweepOf = field(
        default="auto",
        metadata=describe(
            "What a sweep turns. stage: the knobs that the kernel leaves to the stage; whole: all knobs of the kernel "
            "together, once, in the first stage that runs; without a clock none is chosen, and a winner that is faster "
            "by no more than the noise is not judged; knobs: once as whole, of the stages that run, each knob alone "
            "and then what paid together. auto: knobs where the embedded expert plays the team and kernels are timed, "
            "otherwise stage."
        ),
    )
    accept: Accept = field(
        default="faster",
        metadata=describe(
            "Which kernel a run hands over. faster: one that was measured faster than PyTorch with confidence, and "
            "where nothing is timed one that is right; right: also one that is slower or whose speed is inconclusive."
        ),
    )
    near_floor: Annotated[float, Field(ge=0)] = field(
        default=1.05,
        metadata=describe(
            "Plan no further optimization of a kernel whose measured time is at most this many times the task's floor, "
            "the time for all inputs, outputs and products; 0 never stops there."
        ),
    )
    min_gain_per_dollar: Annotated[float, Field(ge=0)] = field(
        default=0.0,
        metadata=describe(
            "Plan no further optimization where even a kernel at the task's floor would save less of the time per "
            "dollar [percent/USD], at what a plan of this run has cost so far; needs measured times and the price of "
            "every model; 0 never stops there."
        ),
    )
    patience: Count = field(
        default=0,
        metadata=describe(
            "Give up a stage after so many plans in a row that brought no better kernel; 0 goes on to "
            "max_optimizations."
        ),
    )
    tune_untimed: bool = field(
        default=False,
        metadata=describe(
            "Pay a model for hardware tuning also where nothing is timed and no gain can be shown; without it those "
            "stages are skipped there, and no plan is asked for once the best kernel's bound is the task's floor. The "
            "embedded expert calls no model: it works on them always."
        ),
    )
    triton_only: bool = field(
        default=False, metadata=describe("Forbid library calls (cuBLAS, cuDNN) beside the kernel's own Triton.")
    )
    expert_seed: bool = field(
        default=True,
        metadata=describe(
            "Where chat models play the team, judge the embedded expert's kernel first, as attempt 0: the contender "
            "that they must beat. It costs no token, and no run ends below it."
        ),
    )
    memory: bool = field(
        default=True,
        metadata=describe(
            "Recall what earlier runs measured on problems like this one, and keep what this one measures, in the "
            "graph's store; without a store there is no memory."
        ),
    )
    tuned_baseline: bool = field(
        default=False,
        metadata=describe(
            "On a GPU, also time PyTorch with its own switches turned: cudnn.benchmark and channels_last where there "
            "is a convolution, and torch.compile's max-autotune. It takes up to ten minutes, and decides no verdict."
        ),
    )
    knowledge_dir: str | None = field(
        default=None,
        metadata=describe("Folder with principles and hardware specifications of your own, beside those that ship."),
    )

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            BadInput: if a value is not one of a knob's choices or out of its range.
        """
        for name, adapter in _adapters().items():
            given = getattr(self, name)
            try:
                value = adapter.validate_python(given)
            except ValidationError as error:
                raise BadInput(_complaint(name, error)) from error
            object.__setattr__(self, name, value)
        read_budgets(self.budgets)


_fill = Context.__init__


@wraps(_fill)
def _check_and_fill(self: Context, **knobs: Any) -> None:
    _check_names(knobs)
    _fill(self, **knobs)


Context.__init__ = _check_and_fill  # type: ignore[method-assign]  # the dataclass's own answers with a TypeError


@cache
def read_budgets(words: tuple[str, ...]) -> dict[tuple[str, str], float]:
    """Read the budgets of stages and roles: the limit by part and measure.

    Raises:
        BadInput: if one is not of the form PART.MEASURE=LIMIT, or names no part, no measure or no limit.
    """
    parts, limits = (*get_args(StageName), *ROLES), {}
    for word in words:
        name, _, limit = word.partition("=")
        part, _, measure = name.strip().partition(".")
        try:
            limits[part, measure] = float(limit)
        except ValueError:
            limits[part, measure] = -1.0
        if part in ROLES and measure == "gpu_seconds":
            raise BadInput(f"budgets: {word!r}: no role keeps a GPU at work; name a stage, such as {parts[0]}")
        if part not in parts or measure not in MEASURES or not limits[part, measure] >= 0:
            raise BadInput(
                f"budgets: {word!r}: write PART.MEASURE=LIMIT, such as coder.tokens=50000, with a part of "
                f"{', '.join(parts)} and a measure of {', '.join(MEASURES)}"
            )
    return limits


def _complaint(name: str, error: ValidationError) -> str:
    """One line: what the knob must be, and what was given."""
    first = error.errors(include_url=False)[0]
    wanted = first["msg"].removeprefix("Value error, ").replace("Input should", "must", 1).partition(", unable")[0]
    return f"{name} {wanted}, not {first['input']!r}"


def check_device(device: Device) -> None:
    """Refuse `gpu` on a machine that has none.

    Raises:
        BadInput: if `device` is `gpu` and torch sees no GPU.
    """
    if device != "gpu":
        return
    from egg_graph.evaluator import gpu_present

    if not gpu_present():
        raise BadInput("device gpu: torch sees no GPU on this machine; --device none proves kernels without one")


def choose_target(key: str, folder: str | None = None) -> Hardware:
    """Load the specification of the GPU that a kernel is written for.

    Args:
        key: a hardware key; `auto` means this machine's GPU, or `DEFAULT_TARGET` where it has none.
        folder: a folder with further specifications.

    Raises:
        BadInput: if no specification has that key, or none fits this machine's GPU.
    """
    from egg_graph.evaluator import environment
    from egg_graph.knowledge import load_hardware

    if key != "auto":
        return load_hardware(key, folder)
    return load_hardware(key_of_gpu(environment().gpu, folder), folder)


def key_of_gpu(name: str | None, folder: str | None = None) -> str:
    """The hardware key of a GPU by its name; `DEFAULT_TARGET` where there is none.

    Raises:
        BadInput: if no specification fits it.
    """
    from egg_graph.knowledge import detect_hardware, hardware_keys

    if name is None:
        return DEFAULT_TARGET
    detected = detect_hardware(name, folder)
    if detected is None:
        keys = ", ".join(hardware_keys(folder))
        raise BadInput(f"no specification of the GPU that judges ({name}): pass target= one of {keys}")
    return detected


@cache
def _adapters() -> dict[str, TypeAdapter[Any]]:
    hints = get_type_hints(Context, include_extras=True)
    return {f.name: TypeAdapter(hints[f.name]) for f in fields(Context)}


def make_context(knobs: Mapping[str, Any]) -> Context:
    """Make a Context of knobs by name.

    Raises:
        BadInput: if there is no such knob, or a value is not one of its choices or out of its range.
    """
    _check_names(knobs)
    return Context(**knobs)


def _check_names(knobs: Mapping[str, Any]) -> None:
    """Refuse a name that is no knob's."""
    unknown = sorted(str(name) for name in set(knobs) - set(Context.__dataclass_fields__))
    if unknown:
        raise BadInput(f"no knob {unknown[0]!r}; the knobs are {', '.join(Context.__dataclass_fields__)}")


def save_knobs(context: Context) -> dict[str, Any]:
    """The knobs as JSON values, which every checkpointer can keep; `make_context` reads them."""
    return {**asdict(context), "stages": list(context.stages), "budgets": list(context.budgets)}


def resolve(context: object, state: Mapping[str, Any] | None = None) -> Context:
    """Find the Context of a run in what the LangGraph runtime carries, or else in the run's state.

    The runtime carries None where the caller passed no context. Inside another graph it carries the parent's context,
    which may be a Context, a mapping of knobs, or the parent's own object or mapping; the parent's own steers the run
    with its attribute or key `egg`, a Context or a mapping of knobs. A context that sets no knob counts as none,
    because a LangGraph server sends such a one where the caller passed none. Then the knobs in `state` hold, with which
    the run was started, and without them the defaults.

    Args:
        context: what the runtime carries.
        state: the state of the run; None for a run that starts.

    Raises:
        BadInput: if the knobs are neither a Context nor a mapping, or one of them is unknown or wrong.
    """
    given = _read_given(context)
    if given is not None and given != _defaults():
        return given
    return make_context((state or {}).get("knobs", {}))


@cache
def _defaults() -> Context:
    return Context()


def _read_given(context: object) -> Context | None:
    """The Context that is meant by what the runtime carries; None where it says nothing of the run."""
    if context is None or isinstance(context, Context):
        return context
    if isinstance(context, Mapping) and "egg" not in context:
        return _read_mapping(context)
    if isinstance(context, str | bytes | int | float | Sequence | Set) and not hasattr(context, "egg"):
        raise BadInput(f"the context is {context!r}: pass a Context, or a mapping of knobs")
    egg = context["egg"] if isinstance(context, Mapping) else getattr(context, "egg", None)
    if egg is None or isinstance(egg, Context):
        return egg
    if isinstance(egg, Mapping):
        return make_context(egg)
    raise BadInput(f"egg in the context is {egg!r}: make it a Context, or a mapping of knobs")


def _read_mapping(context: Mapping[Any, Any]) -> Context | None:
    """The Context of a mapping of knobs; None for a parent's own mapping, where no key resembles a knob's name."""
    names = list(Context.__dataclass_fields__)
    if not any(get_close_matches(str(key), names, n=1, cutoff=SAME_NAME) for key in context):
        return None
    try:
        return make_context(context)
    except BadInput as error:
        raise BadInput(f"{error}; if the context is your own, put the knobs of the run under its key 'egg'") from error


def recursion_limit(attempts: int = ATTEMPTS_CEILING, inserted: int = 0) -> int:
    """Count the most LangGraph steps that a run of `attempts` attempts can take.

    One attempt takes at most three steps: analyst or debugger, coder, evaluator; and six where it is drafted beside
    others: analyst, coder, draft, evaluator, judge, rank. Each of the four stages adds open, tuner and close, and the
    run prepare, baseline, contender and conclude. A node that is inserted stands beside any of these.
    """
    return (6 * attempts + 4 * 3 + 4) * (1 + inserted) + 1
