"""Write pointwise ATen operators as Triton expressions. Floats compute in fp32, whatever the tensors' dtype.

A playbook calls `expression` to write the arithmetic of a prologue, an epilogue or a body: it returns the right-hand
side for one node, in terms of the variables that hold its operands.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import JsonValue

from egg_graph.expert.capture.graph import CapturedGraph, Node

FLOATS = ("float32", "bfloat16", "float16")
"""Floating dtypes that kernels load and store."""

INTEGER = {"int64": "tl.int64", "int32": "tl.int32", "int16": "tl.int16", "int8": "tl.int8", "uint8": "tl.uint8"}

NARROW = {"float16": "tl.float16", "bfloat16": "tl.bfloat16"}


def is_pointwise(node: Node) -> bool:
    """Return whether `expression` can write this node."""
    return (
        node.base in _RULES
        and bool(node.shapes)
        and node.dtype not in ("float64", "complex64", "complex128")
        and not (node.base == "pow" and not _pow_is_known(node))
    )


def triton_dtype(dtype: str) -> str:
    """Return the dtype of a value inside a kernel: fp32 for all floats."""
    return INTEGER.get(dtype, "tl.int1" if dtype == "bool" else "tl.float32")


@dataclass
class Call:
    """One operator call whose expression is being written."""

    graph: CapturedGraph
    node: Node
    variable: Callable[[str], str]
    number: Callable[[JsonValue], str]
    helpers: set[str] = field(default_factory=set)

    def raw(self, index: int, keyword: str = "", default: JsonValue = None) -> JsonValue:
        """Return an argument as captured."""
        if index < len(self.node.args):
            return self.node.args[index]
        return self.node.kwargs.get(keyword, default)

    def has(self, index: int, keyword: str = "") -> bool:
        return self.raw(index, keyword) is not None

    def arg(self, index: int, keyword: str = "", default: JsonValue = None) -> str:
        """Return an argument as text: a number, or the operand's variable, cast where the result has a wider kind."""
        raw = self.raw(index, keyword, default)
        if isinstance(raw, dict) and "node" in raw:
            name = str(raw["node"])
            text = self.variable(name)
            if self.node.is_float and not self.graph[name].is_float:
                return f"{text}.to(tl.float32)"
            if self.node.dtype in INTEGER and self.graph[name].dtype == "bool":
                return f"{text}.to({INTEGER[self.node.dtype]})"
            return text
        if isinstance(raw, bool | int | float):
            return literal(raw)
        return self.number(raw)

    def call(self, helper: str, *args: str) -> str:
        self.helpers.add(helper)
        return f"{helper}({', '.join(args)})"


def literal(value: bool | int | float) -> str:
    """Write a Python number as kernel text."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return f"({value!r})" if not isinstance(value, bool) and value < 0 else repr(value)


def no_number(raw: JsonValue) -> str:
    """Refuse a number that depends on sizes.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"a kernel here cannot take the number {raw!r}, which depends on sizes")


def expression(
    graph: CapturedGraph,
    node: Node,
    variable: Callable[[str], str],
    number: Callable[[JsonValue], str] = no_number,
) -> tuple[str, set[str]]:
    """Return the Triton expression of a pointwise node, and the names of the helpers (`codegen.helpers`) that it calls.

    Args:
        graph: The graph the node is in.
        node: A node with `is_pointwise(node)`.
        variable: Maps an operand's name to the kernel variable that holds it: floats as fp32, integers as integers,
            booleans as int1; broadcasting is the caller's.
        number: Maps a number that differs between captures (`{"sizes": …}`, `{"floats": …}`) to a kernel argument.
    """
    call = Call(graph, node, variable, number)
    return _RULES[node.base](call), call.helpers


def _binary(symbol: str) -> Callable[[Call], str]:
    return lambda c: f"{c.arg(0)} {symbol} {c.arg(1)}"


def _unary(template: str) -> Callable[[Call], str]:
    return lambda c: template.format(x=c.arg(0))


def _scaled(symbol: str) -> Callable[[Call], str]:
    def rule(c: Call) -> str:
        alpha = c.raw(2, "alpha", 1)
        second = c.arg(1) if alpha == 1 else f"{c.arg(2, 'alpha')} * {c.arg(1)}"
        return f"{c.arg(0)} {symbol} {second}"

    return rule


def _rsub(c: Call) -> str:
    alpha = c.raw(2, "alpha", 1)
    return f"{c.arg(1)} - {c.arg(0)}" if alpha == 1 else f"{c.arg(1)} - {c.arg(2, 'alpha')} * {c.arg(0)}"


def _div(c: Call) -> str:
    mode = c.raw(2, "rounding_mode")
    if mode == "floor":
        return f"tl.floor({c.arg(0)} / {c.arg(1)})" if c.node.is_float else f"{c.arg(0)} // {c.arg(1)}"
    if mode == "trunc" and c.node.is_float:
        return f"({c.arg(0)} / {c.arg(1)}).to(tl.int64).to(tl.float32)"
    return f"{c.arg(0)} / {c.arg(1)}"


def _clamp(low: int | None, high: int | None, defaults: tuple[float, float] | None = None) -> Callable[[Call], str]:
    """Clamp by comparisons: they are false for NaN and so keep it, as PyTorch does."""

    def rule(c: Call) -> str:
        text = x = c.arg(0)
        bounds = defaults or (None, None)
        if high is not None and (c.has(high, "max") or c.has(high, "max_val") or bounds[1] is not None):
            top = c.arg(high, "max" if c.has(high, "max") else "max_val", bounds[1])
            text = f"tl.where({x} > {top}, {top}, {text})"
        if low is not None and (c.has(low, "min") or c.has(low, "min_val") or bounds[0] is not None):
            bottom = c.arg(low, "min" if c.has(low, "min") else "min_val", bounds[0])
            text = f"tl.where({x} < {bottom}, {bottom}, {text})"
        return text

    return rule


def _gelu(c: Call) -> str:
    return c.call("gelu_tanh" if c.raw(1, "approximate", "none") == "tanh" else "gelu", c.arg(0))


def _elu(c: Call) -> str:
    x, alpha = c.arg(0), c.arg(1, "alpha", 1.0)
    scale, inner = c.arg(2, "scale", 1.0), c.arg(3, "input_scale", 1.0)
    return f"{scale} * tl.where({x} > 0, {x}, {alpha} * {c.call('expm1', f'{inner} * {x}')})"


def _selu(c: Call) -> str:
    x = c.arg(0)
    return f"1.0507009873554805 * tl.where({x} > 0, {x}, 1.6732632423543772 * {c.call('expm1', x)})"


def _celu(c: Call) -> str:
    x, alpha = c.arg(0), c.arg(1, "alpha", 1.0)
    return f"tl.where({x} > 0, {x}, {alpha} * {c.call('expm1', f'{x} / {alpha}')})"


def _softplus(c: Call) -> str:
    x, beta, threshold = c.arg(0), c.arg(1, "beta", 1.0), c.arg(2, "threshold", 20.0)
    if beta in ("1", "1.0"):
        return f"tl.where({x} > {threshold}, {x}, {c.call('softplus', x)})"
    inner = f"{x} * {beta}"
    return f"tl.where({inner} > {threshold}, {x}, {c.call('softplus', inner)} / {beta})"


def _leaky_relu(c: Call) -> str:
    x = c.arg(0)
    return f"tl.where({x} > 0, {x}, {c.arg(1, 'negative_slope', 0.01)} * {x})"


def _pow_is_known(node: Node) -> bool:
    exponent = node.args[1]
    if node.op == "aten.pow.Scalar":
        base = node.args[0]
        return isinstance(base, int | float) and base > 0
    return isinstance(exponent, int | float)


def _pow(c: Call) -> str:
    if c.node.op == "aten.pow.Scalar":
        base = c.raw(0)
        assert isinstance(base, int | float)
        return f"tl.exp2({c.arg(1)} * {math.log2(base)!r})"
    x, exponent = c.arg(0), c.raw(1)
    assert isinstance(exponent, int | float)
    if exponent == 0.5:
        return f"tl.sqrt({x})"
    if exponent == -0.5:
        return f"tl.rsqrt({x})"
    if float(exponent).is_integer() and 0 < abs(exponent) <= 8:
        product = " * ".join([x] * abs(int(exponent)))
        return f"{product}" if exponent > 0 else f"1.0 / ({product})"
    return f"tl.exp({exponent!r} * tl.log({x}))"


def _extreme(helper: str) -> Callable[[Call], str]:
    return lambda c: c.call(helper, c.arg(0), c.arg(1))


def _where(c: Call) -> str:
    return f"tl.where({_plain(c, 0)}, {c.arg(1)}, {c.arg(2)})"


def _plain(c: Call, index: int) -> str:
    """Return an operand without a cast to the result's dtype, for conditions and comparisons."""
    raw = c.raw(index)
    if isinstance(raw, dict) and "node" in raw:
        return c.variable(str(raw["node"]))
    return literal(raw) if isinstance(raw, bool | int | float) else c.number(raw)


def _compare(symbol: str) -> Callable[[Call], str]:
    return lambda c: f"{_plain(c, 0)} {symbol} {_plain(c, 1)}"


def _logical(symbol: str) -> Callable[[Call], str]:
    return lambda c: f"({_plain(c, 0)} != 0) {symbol} ({_plain(c, 1)} != 0)"


def _masked_fill(c: Call) -> str:
    return f"tl.where({_plain(c, 1)}, {c.arg(2)}, {c.arg(0)})"


def _cast(c: Call) -> str:
    text = _plain(c, 0)
    if c.node.dtype == "bool":
        return f"{text} != 0"
    raw = c.raw(0)
    source = c.graph[str(raw["node"])] if isinstance(raw, dict) else None
    if source is not None and source.is_float and c.node.is_float:
        narrow = NARROW.get(c.node.dtype)  # asked for by the module: the rounding belongs to its answer
        return f"{text}.to({narrow}).to(tl.float32)" if narrow and source.dtype != c.node.dtype else text
    return f"{text}.to({triton_dtype(c.node.dtype)})"


def _fill_like(value: str) -> Callable[[Call], str]:
    return lambda c: value


_RULES: dict[str, Callable[[Call], str]] = {
    # arithmetic
    "add": _scaled("+"), "sub": _scaled("-"), "rsub": _rsub, "mul": _binary("*"), "div": _div,
    "neg": _unary("-{x}"), "abs": _unary("tl.abs({x})"), "reciprocal": _unary("1.0 / {x}"),
    "sign": _unary("tl.where({x} > 0, 1.0, tl.where({x} < 0, -1.0, {x} * 0.0))"),
    "pow": _pow, "square": _unary("{x} * {x}"), "sqrt": _unary("tl.sqrt({x})"), "rsqrt": _unary("tl.rsqrt({x})"),
    "floor": _unary("tl.floor({x})"), "ceil": _unary("tl.ceil({x})"),
    "addcmul": lambda c: f"{c.arg(0)} + {c.arg(3, 'value', 1)} * {c.arg(1)} * {c.arg(2)}",
    "addcdiv": lambda c: f"{c.arg(0)} + {c.arg(3, 'value', 1)} * {c.arg(1)} / {c.arg(2)}",
    "lerp": lambda c: f"{c.arg(0)} + {c.arg(2)} * ({c.arg(1)} - {c.arg(0)})",
    # exponentials
    "exp": _unary("tl.exp({x})"), "exp2": _unary("tl.exp2({x})"), "log": _unary("tl.log({x})"),
    "log2": _unary("tl.log2({x})"), "sin": _unary("tl.sin({x})"), "cos": _unary("tl.cos({x})"),
    "erf": _unary("tl.erf({x})"), "expm1": lambda c: c.call("expm1", c.arg(0)),
    "log1p": lambda c: c.call("log1p", c.arg(0)), "tanh": lambda c: c.call("tanh", c.arg(0)),
    # activations
    "sigmoid": _unary("tl.sigmoid({x})"), "silu": _unary("{x} * tl.sigmoid({x})"), "gelu": _gelu,
    "mish": lambda c: c.call("mish", c.arg(0)), "softplus": _softplus, "elu": _elu, "selu": _selu, "celu": _celu,
    "relu": _unary("tl.where({x} < 0, 0.0, {x})"), "leaky_relu": _leaky_relu,
    "relu6": _unary("tl.where({x} < 0.0, 0.0, tl.where({x} > 6.0, 6.0, {x}))"),
    "hardtanh": _clamp(1, 2, (-1.0, 1.0)),
    "hardsigmoid": _unary("tl.where({x} < -3.0, 0.0, tl.where({x} > 3.0, 1.0, {x} / 6.0 + 0.5))"),
    "hardswish": _unary("tl.where({x} < -3.0, 0.0, tl.where({x} > 3.0, {x}, {x} * ({x} / 6.0 + 0.5)))"),
    # bounds and choices
    "clamp": _clamp(1, 2), "clamp_min": _clamp(1, None), "clamp_max": _clamp(None, 1),
    "maximum": _extreme("propagate_max"), "minimum": _extreme("propagate_min"),
    "where": _where, "masked_fill": _masked_fill,
    "eq": _compare("=="), "ne": _compare("!="), "lt": _compare("<"), "le": _compare("<="), "gt": _compare(">"),
    "ge": _compare(">="), "logical_and": _logical("&"), "logical_or": _logical("|"),
    "logical_not": lambda c: f"{_plain(c, 0)} == 0", "bitwise_and": _binary("&"), "bitwise_or": _binary("|"),
    "bitwise_not": lambda c: f"{_plain(c, 0)} == 0" if c.node.dtype == "bool" else f"~{c.arg(0)}",
    "__and__": _binary("&"), "__or__": _binary("|"), "__xor__": _binary("^"), "bitwise_xor": _binary("^"),
    "__lshift__": _binary("<<"), "__rshift__": _binary(">>"),
    "bitwise_left_shift": _binary("<<"), "bitwise_right_shift": _binary(">>"),
    "isinf": lambda c: f'tl.abs({_plain(c, 0)}) == float("inf")',
    "isnan": lambda c: f"{_plain(c, 0)} != {_plain(c, 0)}",
    # casts and fills
    "_to_copy": _cast, "to": _cast, "convert_element_type": _cast, "detach": lambda c: _plain(c, 0),
    "zeros_like": _fill_like("0.0"), "ones_like": _fill_like("1.0"),
}  # fmt: skip

POINTWISE = frozenset(_RULES)
"""Base names of all operators that `expression` knows."""
