"""Reductions and scans of every type, along every axis, with the language's and with own functions."""

from tests.evaluator.interpreter.generated.values import ALL, FLOATS, INTEGERS
from tests.evaluator.interpreter.generated.writer import Shape, Writer

SHAPES: tuple[Shape, ...] = ((64,), (128,), (16, 8), (4, 32), (4, 8, 4))
SUM_ERROR = {
    "float32": "sum order",
    "float64": "sum order fp64",
    "float16": "sum order fp16",
    "bfloat16": "sum order bf16",
}


def _axis(w: Writer, *, none: bool = True) -> tuple[str, Shape]:
    """Choose a shape of blocks and an axis; return the axis as text, and the shape that is left."""
    w.shape = w.random.choice(SHAPES)
    axis = w.random.randrange(len(w.shape))
    if none and w.random.random() < 0.3:
        return "None", ()
    return str(axis), w.shape[:axis] + w.shape[axis + 1 :]


def _accumulator(dtype: str) -> str:
    """The type in which a result is stored without loss."""
    return {"bfloat16": "float32"}.get(dtype, dtype if dtype in FLOATS else "int64")


def exact_sums(w: Writer) -> None:
    """Sums that no order changes."""
    dtype = w.cycle(*ALL, "bool")
    axis, left = _axis(w)
    x = w.load(dtype, "few" if dtype in ("float16", "bfloat16") else "small" if dtype in FLOATS else "edges")
    w.store(f"tl.sum({x}, axis={axis})", _accumulator(dtype), shape=left)
    if axis != "None":
        kept = (*w.shape[: int(axis)], 1, *w.shape[int(axis) + 1 :])
        w.store(f"tl.sum({x}, axis={axis}, keep_dims=True)", _accumulator(dtype), shape=kept)


def rounded_sums(w: Writer) -> None:
    """Sums whose last bits depend on the order."""
    dtype = w.cycle(*FLOATS)
    axis, left = _axis(w)
    x = w.load(dtype, "unit")
    w.store(f"tl.sum({x}, axis={axis})", dtype, SUM_ERROR[dtype], left)
    w.store(f"tl.sum(tl.abs({x}.to(tl.float32)), axis={axis})", "float32", "scale", left)


def extremes(w: Writer) -> None:
    """`tl.max` and `tl.min`, with NaN, which loses."""
    dtype = w.cycle(*ALL)
    axis, left = _axis(w)
    x = w.load(dtype, w.pick("edges", "few"))
    for function in ("max", "min"):
        w.store(f"tl.{function}({x}, axis={axis})", dtype, shape=left)


def places_of_extremes(w: Writer) -> None:
    """`tl.argmax` and `tl.argmin`: the first among equals."""
    dtype = w.cycle("int32", "float32", "float16", "int64", "bfloat16", "int8", "uint32", "int16")
    axis, left = _axis(w, none=False)
    x = w.load(dtype, w.pick("few", "small"))
    for function in ("argmax", "argmin"):
        w.store(f"tl.{function}({x}, axis={axis})", "int32", shape=left)
    function = w.pick("max", "min")
    w.line(f"best, place = tl.{function}({x}, axis={axis}, return_indices=True)")
    w.store("best", dtype, shape=left)
    w.store("place", "int32", shape=left)


def bits(w: Writer) -> None:
    """`tl.xor_sum` and own functions of bits."""
    dtype = w.cycle(*INTEGERS)
    axis, left = _axis(w, none=False)
    w.function("def both(a, b):\n    return a & b")
    w.function("def either(a, b):\n    return a | b")
    x = w.load(dtype)
    w.store(f"tl.xor_sum({x}, axis={axis})", dtype, shape=left)
    for function in ("both", "either"):
        w.store(f"tl.reduce({x}, {axis}, {function})", dtype, shape=left)


def own_reductions(w: Writer) -> None:
    """`tl.reduce` with own functions of one and of two values."""
    dtype = w.cycle("int32", "float32", "int64", "float64")
    axis, left = _axis(w, none=False)
    w.function("def product(a, b):\n    return a * b")
    w.function("def furthest(a, b):\n    return tl.where(tl.abs(a) >= tl.abs(b), tl.abs(a), tl.abs(b))")
    w.function(
        "def larger(a, i, b, j):\n    first = (a > b) | ((a == b) & (i < j))\n"
        "    return tl.where(first, a, b), tl.where(first, i, j)"
    )
    x, index = w.load(dtype, "few"), w.load("int32", "permutation")
    w.store(f"tl.reduce({x}, {axis}, product)", dtype, shape=left)
    w.store(f"tl.reduce({x}, {axis}, furthest)", dtype, shape=left)
    w.line(f"best, place = tl.reduce(({x}, {index}), {axis}, larger)")
    w.store("best", dtype, shape=left)
    w.store("place", "int32", shape=left)


def boolean_reductions(w: Writer) -> None:
    """Any, all and counts of comparisons."""
    dtype = w.cycle("int32", "float32", "uint8")
    axis, left = _axis(w, none=False)
    x = w.load(dtype, "few")
    w.store(f"tl.sum(({x} > 0).to(tl.int32), axis={axis})", "int32", shape=left)
    w.store(f"tl.max(({x} == 2).to(tl.int8), axis={axis})", "int8", shape=left)
    w.store(f"tl.sum({x} > 0, axis={axis})", "int32", shape=left)


def exact_scans(w: Writer) -> None:
    """`tl.cumsum` and `tl.cumprod` that no order changes."""
    dtype = w.cycle(*ALL)
    axis, _ = _axis(w, none=False)
    x = w.load(dtype, "few" if dtype in FLOATS else "edges")
    reverse = w.pick("True", "False")
    w.store(f"tl.cumsum({x}, axis={axis}, reverse={reverse})", _accumulator(dtype))
    if dtype not in FLOATS:
        w.store(f"tl.cumprod({x}, axis={axis})", _accumulator(dtype))


def rounded_scans(w: Writer) -> None:
    """Scans whose last bits depend on the order."""
    dtype = w.cycle("float32", "float16", "bfloat16", "float64")
    axis, _ = _axis(w, none=False)
    x = w.load(dtype, "unit")
    w.store(f"tl.cumsum({x}, axis={axis})", dtype, SUM_ERROR[dtype])
    w.store(f"tl.cumsum(tl.abs({x}.to(tl.float32)), axis={axis})", "float32", "scale")


def own_scans(w: Writer) -> None:
    """`tl.associative_scan`: running extremes, and linear recurrences of two values."""
    dtype = w.cycle("int32", "float32", "int64", "uint16")
    axis, _ = _axis(w, none=False)
    reverse = w.pick("True", "False")
    w.function("def running(a, b):\n    return tl.maximum(a, b)")
    w.function("def recurrence(a, b, c, d):\n    return a * c, b * c + d")
    x = w.load(dtype, "edges" if dtype in INTEGERS else "finite")
    w.store(f"tl.associative_scan({x}, {axis}, running, reverse={reverse})", dtype)
    a, b = w.load("int32"), w.load("int32")
    w.line(f"factor, value = tl.associative_scan(({a}, {b}), {axis}, recurrence, reverse={reverse})")
    w.store("factor", "int32")
    w.store("value", "int32")
