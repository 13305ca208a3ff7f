"""Export a reference with `torch.export` at several shapes and merge them into one graph. Imports torch.

The export runs under fake tensors, so that it takes no memory at any size.
"""

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from pydantic import JsonValue
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from egg_graph.evaluator import (
    Form,
    cast_as_policy_says,
    cast_model,
    choose_shapes,
    forward_form,
    load_reference,
    shape_knobs,
)
from egg_graph.expert.capture.batch_norms import write_out_batch_norms
from egg_graph.expert.capture.decompose.decomposer import Decomposer
from egg_graph.expert.capture.errors import CannotCapture
from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.capture.held_tensors import hold_as_buffers
from egg_graph.expert.capture.merge import ShapeCapture, merge, skeleton
from egg_graph.expert.capture.whole_recurrences import whole_recurrences
from egg_graph.schema import Precision

SMALLEST_SIZE = 8
"""Do not vary integers up to this one: they are axes, kernel sizes and the like."""
LARGE_GRAPH = 24
"""Operators from which on the evaluator's smaller shapes, whose search takes up to a minute for a network, are left out
where two shapes are captured at which every size has a multiple of its own."""
HUGE_GRAPH = 400
"""Operators from which on one such shape is enough. An export takes ten seconds then."""
FACTORS = {3: 5, 5: 7, 2: 3, 7: 11, 11: 13, 13: 17, 17: 19, 19: 23, 23: 29}
"""Factors of sizes at the first such shape, in the order in which they are given out, and those at the second: each the
next prime, so that what was larger stays larger."""
ASSERTIONS = frozenset({torch.ops.aten._assert_tensor_metadata.default, torch.ops.aten._assert_scalar.default})
"""Drop these checks, which the exporter adds: they compute nothing."""


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep PyTorch's warnings about what it cannot export out of the log, and leave the log as it was."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


@_quiet()
def export_graph(source: str, precision: Precision) -> CapturedGraph:
    """Capture a reference at its full shape, at the evaluator's two smaller shapes and at some that tell sizes apart.

    A large one is captured at one or two of the latter alone where it has them.

    Args:
        source: The reference's source.
        precision: The precision policy; bf16 and fp16 cast parameters and floating inputs.

    Raises:
        BadInput: if the reference cannot be loaded.
        CannotCapture: if the full shape has no graph.
    """
    decomposer = Decomposer()
    full = _export(source, {}, precision, decomposer)
    captures = [full]
    knobs: list[dict[str, int]] = [{}]
    notes: list[str] = []
    form = forward_form(source, {})
    large = len(full.nodes) > LARGE_GRAPH
    enough = 2 if len(full.nodes) > HUGE_GRAPH else 3
    for overrides in _other_shapes(source, form, large):
        if overrides in knobs:
            continue
        if form is not None and forward_form(source, overrides, form) is None:
            notes.append(f"the reference at {overrides} has other layers or steps; sizes are generalised without it")
            continue
        try:
            smaller = _export(source, overrides, precision, decomposer)
        except CannotCapture as error:
            notes.append(f"not captured at {overrides}: {error}")
            continue
        if skeleton(smaller) != skeleton(full):
            notes.append(f"the graph at {overrides} has another structure; sizes are generalised without it")
            continue
        captures.append(smaller)
        knobs.append(overrides)
        if large and len(captures) == enough:
            break
    if len(captures) == 1:
        notes.append("captured at one shape only: every size is a constant")
    return merge(captures, tuple(knobs), tuple(notes))


@_quiet()
def export_full_shape(source: str, precision: Precision) -> ShapeCapture:
    """Capture a reference at its full shape alone; nothing is computed.

    Raises:
        BadInput: if the reference cannot be loaded.
        CannotCapture: if it has no graph.
    """
    return _export(source, {}, precision, Decomposer())


class _ProgramReader:
    """Reads an exported program into plain data."""

    def __init__(self, program: Any, model: torch.nn.Module, just_held: frozenset[str]) -> None:
        self.program = program
        self.just_held = just_held
        """Names of the buffers that are none in the reference, see `hold_as_buffers`."""
        self.capture = ShapeCapture(dict(_numbers(model)))

    def read(self, names: list[str]) -> ShapeCapture:
        """Read all nodes; `names` are the forward's arguments, in order."""
        signature = self.program.graph_signature
        specs = iter(signature.input_specs)
        arguments = iter(names)
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, next(specs), arguments)
            elif node.op == "call_function":
                if node.target not in ASSERTIONS:
                    self._call(node)
            elif node.op == "output":
                self._output(node, signature.output_specs)
            else:
                raise CannotCapture(f"the exported graph holds a {node.op} ({node.target})")
        return self.capture

    def _placeholder(self, node: Any, spec: Any, arguments: Any) -> None:
        kinds = {InputKind.USER_INPUT: "input", InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer",
                 InputKind.CONSTANT_TENSOR: "constant"}  # fmt: skip
        kind = kinds.get(spec.kind)
        if kind is None:
            raise CannotCapture(f"the forward reads a {spec.kind.name.lower()}")
        target = next(arguments) if kind == "input" else spec.target
        if target in self.just_held and kind == "buffer":
            kind = "constant"
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            self.capture.placeholders.append({"name": node.name, "kind": kind, "target": target, "shape": None})
            return
        entry = {"name": node.name, "kind": kind, "target": target, **_tensor(value)}
        if kind == "constant":
            entry["value"] = _constant(self.program.constants.get(spec.target), spec.target)
        self.capture.placeholders.append(entry)

    def _call(self, node: Any) -> None:
        target = node.target
        if isinstance(target, torch._ops.OpOverload):
            op = str(target)
        elif getattr(target, "__name__", "") == "getitem":
            op = "getitem"
        else:
            raise CannotCapture(f"the exported graph calls {target}, which is no ATen operator")
        value = node.meta.get("val")
        entry = {"name": node.name, "op": op, "args": [_arg(a) for a in node.args]}
        entry["kwargs"] = {k: _arg(v) for k, v in node.kwargs.items()}
        entry["defaults"], entry["keyword_defaults"] = _left_out(node)
        self.capture.nodes.append(entry | (_tensor(value) if isinstance(value, torch.Tensor) else {"shape": None}))

    def _output(self, node: Any, specs: list[Any]) -> None:
        user = []
        for arg, spec in zip(node.args[0], specs, strict=True):
            if spec.kind is OutputKind.USER_OUTPUT:
                user.append(_arg(arg))
            elif spec.kind is OutputKind.BUFFER_MUTATION:
                self.capture.mutations[spec.target] = arg.name
            else:
                raise CannotCapture(f"the forward has an effect beside its outputs: {spec.kind.name.lower()}")
        tree = pytree.tree_unflatten(user, self.program.call_spec.out_spec)
        self.capture.outputs = _structure(tree)


def _other_shapes(source: str, form: Form | None, large: bool) -> Iterator[dict[str, int]]:
    """Yield the shapes to capture beside the full one, those that tell most first where the graph is large."""
    if large:
        varied = _varied(source, form, 1)
        yield varied
        yield _varied_otherwise(source, varied)
    smaller_shapes = choose_shapes(source)
    yield from smaller_shapes
    yield _varied(source, form, SMALLEST_SIZE)
    yield from _parted(source, form, smaller_shapes)


def _varied(source: str, form: Form | None, least: int) -> dict[str, int]:
    """Multiply each integer above `least` by a prime of its own where the reference still runs: equal ones differ then.

    The evaluator's shapes shrink only the sizes that cost time. Under fake tensors a large size costs nothing. A number
    of layers or of steps is no size: with another one the reference has not the `form` of its full shape.
    """
    full = shape_knobs(source)
    chosen: dict[str, int] = {}
    factors = iter(FACTORS)
    for name, value in full.items():
        if value <= least or name in chosen:
            continue
        factor = next(factors, 3)
        tied = [other for other in full if full[other] == value and value > SMALLEST_SIZE]
        # A size that has to divide another one cannot grow by a factor of its own; half of it still divides.
        trials = ({**chosen, **dict.fromkeys(names, other)} for other in (value * factor, value // 2) for names in
                  ([name], *([tied] if len(tied) > 1 else ())))  # fmt: skip
        chosen = next((trial for trial in trials if forward_form(source, trial, form) is not None), chosen)
    return chosen


def _varied_otherwise(source: str, varied: dict[str, int]) -> dict[str, int]:
    """Give the sizes that `_varied` multiplied other factors: two products that were equal by chance differ here."""
    full = shape_knobs(source)
    grown = {name: value // full[name] for name, value in varied.items() if value > full[name]}
    return varied | {name: full[name] * FACTORS[factor] for name, factor in grown.items()}


def _parted(source: str, form: Form | None, shapes: Sequence[dict[str, int]]) -> Iterator[dict[str, int]]:
    """Yield overrides that tell apart small integers which the given shapes move together: one moves, and no other.

    A stride and a dilation of 2 that are both 1 at a smaller shape could be taken for each other.
    """
    full = shape_knobs(source)
    together: dict[tuple[bool, ...], list[str]] = {}
    for name in (name for name, value in full.items() if value <= SMALLEST_SIZE):
        together.setdefault(tuple(name in overrides for overrides in shapes), []).append(name)
    for moved, names in together.items():
        for name in names[1:] if any(moved) else ():
            alone = {name: shapes[moved.index(True)][name]}
            if forward_form(source, alone, form) is not None:
                yield alone


def _export(source: str, knobs: dict[str, int], precision: Precision, decomposer: Decomposer) -> ShapeCapture:
    reference = load_reference(source, knobs)
    try:
        fake_mode = FakeTensorMode(allow_non_fake_inputs=True, export=True, shape_env=ShapeEnv(tracked_fakes=[]))
        with fake_mode:
            model, inputs = reference.model(0), reference.inputs(0)
            model = cast_model(model, precision)
            inputs = cast_as_policy_says(inputs, precision, copy=False)
            just_held = hold_as_buffers(model)
        # Told of the mode, the exporter makes none of its own, which would refuse tensors that the module just holds.
        with whole_recurrences(), tracing(TracingContext(fake_mode)):
            program = torch.export.export(model, tuple(inputs), strict=False)
        with whole_recurrences():
            program = decomposer.run(program)
    except (RuntimeError, TypeError, ValueError, NotImplementedError, AssertionError, KeyError) as error:
        raise CannotCapture(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from error
    names = reference.forward_names(len(inputs))
    flat = [name if isinstance(x, torch.Tensor) else None for name, x in zip(names, inputs, strict=True)]
    if any(isinstance(x, list | tuple | dict) for x in inputs):
        raise CannotCapture("forward takes a list, tuple or dict; only tensors and numbers are generalised")
    capture = _ProgramReader(program, model, just_held).read([n or names[i] for i, n in enumerate(flat)])
    write_out_batch_norms(capture)
    return capture


def _left_out(node: Any) -> tuple[list[JsonValue], dict[str, JsonValue]]:
    """Return the defaults of the arguments that a call leaves out: those after its last, and those by keyword.

    The exporter leaves out what equals its default: at a dilation of 1 a convolution has an argument less.
    """
    if not isinstance(node.target, torch._ops.OpOverload):
        return [], {}
    arguments = [a for a in node.target._schema.arguments if a.has_default_value() and a.name not in node.kwargs]
    positional = {a.name for a in node.target._schema.arguments[: len(node.args)]}
    missing = [a for a in arguments if a.name not in positional]
    after = [_arg(a.default_value) for a in missing if not a.kwarg_only]
    return after, {a.name: _arg(a.default_value) for a in missing if a.kwarg_only}


def _tensor(value: torch.Tensor) -> dict[str, Any]:
    return {"shape": tuple(value.shape), "dtype": str(value.dtype).removeprefix("torch."), "stride": value.stride()}


def _constant(value: Any, target: str) -> float | int | bool | None:
    """Return the value of a tensor that the forward itself makes (`torch.tensor(2.0)`), None for any other constant."""
    if not target.rpartition(".")[2].startswith("lifted_tensor"):  # its name begins with the module that makes it
        return None
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise CannotCapture("the forward creates a constant tensor with more than one element; make it a buffer")
    known = getattr(value, "constant", None)
    return (known if known is not None else value).item()


def _arg(arg: Any) -> JsonValue:
    if isinstance(arg, torch.fx.Node):
        return {"node": arg.name}
    if isinstance(arg, list | tuple):
        return [_arg(a) for a in arg]
    if isinstance(arg, torch.dtype):
        return {"dtype": str(arg).removeprefix("torch.")}
    if isinstance(arg, torch.device):
        return {"device": arg.type}
    if isinstance(arg, torch.memory_format):
        return {"memory_format": str(arg).removeprefix("torch.")}
    if isinstance(arg, torch.layout):
        return {"layout": str(arg).removeprefix("torch.")}
    if isinstance(arg, float) and not math.isfinite(arg):
        return {"float": str(arg)}
    if arg is None or isinstance(arg, bool | int | float | str):
        return arg
    raise CannotCapture(f"an operator takes a {type(arg).__name__}, which cannot be written down")


def _structure(tree: Any) -> JsonValue:
    if isinstance(tree, dict) and set(tree) == {"node"}:
        return tree
    if isinstance(tree, dict):
        return {"dict": {str(k): _structure(v) for k, v in tree.items()}}
    if isinstance(tree, tuple):
        return {"tuple": [_structure(v) for v in tree]}
    if isinstance(tree, list):
        return {"list": [_structure(v) for v in tree]}
    return tree


def _numbers(model: torch.nn.Module) -> Iterator[tuple[str, int | float]]:
    """Yield the integers and finite floats that modules hold, with their names as spelled after `self.`."""
    for name, module in model.named_modules():
        prefix = f"{name}." if name else ""
        for key, value in vars(module).items():
            if key.startswith("_"):
                continue
            if _is_number(value):
                yield f"{prefix}{key}", value
            elif isinstance(value, list | tuple):
                yield from ((f"{prefix}{key}[{i}]", v) for i, v in enumerate(value) if _is_number(v))


def _is_number(value: object) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))
