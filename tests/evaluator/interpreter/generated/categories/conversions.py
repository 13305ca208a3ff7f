"""Conversions: casts of every type, bits as another type, and what a number or another type promotes to."""

from tests.evaluator.interpreter.generated.values import ALL, FLOAT8, FLOATS, INTEGERS
from tests.evaluator.interpreter.generated.writer import Writer, triton_name

SIZES = {"8": ("int8", "uint8"), "16": ("int16", "uint16", "float16", "bfloat16"),
         "32": ("int32", "uint32", "float32"), "64": ("int64", "uint64", "float64")}  # fmt: skip


def casts_in_range(w: Writer) -> None:
    """Every type to every other, of values that both hold."""
    source = w.cycle(*ALL, "bool")
    x = w.load(source, "positive integers" if source in FLOATS else "castable")
    if source in ("int8", "int16", "int32", "int64"):
        w.line(f"{x} = tl.abs({x})")
    for target in w.random.sample([*ALL, "bool"], 6):
        w.store(f"{x}.to({triton_name(target)})", target)


def casts_between_integers(w: Writer) -> None:
    """Integers to integers, where high bits are lost or the sign is repeated."""
    x = w.load(w.cycle(*INTEGERS))
    for target in (*INTEGERS, "bool"):
        w.store(f"{x}.to({triton_name(target)})", target)


def casts_between_floats(w: Writer) -> None:
    """Floats to floats, rounded to nearest even, with values that overflow or vanish."""
    x = w.load(w.cycle(*FLOATS), w.pick("edges", "wide"))
    for target in (*FLOATS, "bool"):
        w.store(f"{x}.to({triton_name(target)})", target)


def casts_of_integers_to_floats(w: Writer) -> None:
    """Integers of any size to floats, rounded."""
    x = w.load(w.cycle(*INTEGERS))
    for target in FLOATS:
        w.store(f"{x}.to({triton_name(target)})", target)


def casts_of_fractions(w: Writer) -> None:
    """Floats to signed integers, toward zero."""
    x = w.load(w.cycle(*FLOATS), "halves")
    for target in ("int8", "int16", "int32", "int64"):
        w.store(f"{x}.to({triton_name(target)})", target)


def casts_out_of_range(w: Writer) -> None:
    """Floats to integers that do not hold them, which LLVM leaves open: what the hardware gives."""
    x = w.load(w.cycle("float32", "float64", "float16", "bfloat16"), "edges")
    for target in w.random.sample(["int32", "int64", "uint32", "uint64", "int16", "uint8"], 3):
        w.store(f"{x}.to({triton_name(target)})", target)


def bits_as_another_type(w: Writer) -> None:
    """`bitcast=True`."""
    same = SIZES[w.cycle("8", "16", "32", "64")]
    source = w.pick(*same)
    x = w.load(source, "finite" if source in FLOATS else "edges")
    for target in same:
        if target in FLOATS and source not in FLOATS:  # bits of a NaN may change on their way
            w.store(f"{x}.to({triton_name(target)}, bitcast=True).to(tl.int{8 * _size(target)}, bitcast=True)", source)
        else:
            w.store(f"{x}.to({triton_name(target)}, bitcast=True)", target)


def _size(dtype: str) -> int:
    return {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}[dtype]


def rounding_of_casts(w: Writer) -> None:
    """`fp_downcast_rounding`, to nearest even or toward zero."""
    x = w.load("float32", w.pick("wide", "finite"))
    for target in ("float16", "bfloat16"):
        for mode in ("rtne", "rtz"):
            w.store(f'{x}.to({triton_name(target)}, fp_downcast_rounding="{mode}")', target)


def float8(w: Writer) -> None:
    """To and from the float8 formats of the hardware."""
    x = w.load(w.cycle("float32", "float16", "bfloat16"), w.pick("finite", "edges", "unit"))
    coded = w.load(w.cycle(*FLOAT8), "finite")
    for target in FLOAT8:
        w.store(f"{x}.to({triton_name(target)})", target)
    for target in ("float16", "bfloat16", "float32"):
        w.store(f"{coded}.to({triton_name(target)})", target)


def promotions(w: Writer) -> None:
    """Operators on two types: the result's type, and its value."""
    left = ALL[w.number % len(ALL)]
    right = w.random.choice(ALL)
    x, y = w.load(left, "small"), w.load(right, "small")
    floating = left in FLOATS or right in FLOATS
    for operator in ("+", "*", "-") if floating else ("+", "*", "&"):
        _observe(w, f"{x} {operator} {y}", floating=floating)
    _observe(w, f"tl.where({x} > 0, {x}, {y})", floating=floating)


def promotions_of_scalars(w: Writer) -> None:
    """Numbers of Python, arguments and constants beside a block: the result's type, and its value."""
    dtype = w.cycle(*ALL)
    x = w.load(dtype, "small")
    whole = w.parameter("whole", w.pick("1", "3", "16", "70000", "5000000000"))
    part = w.parameter("part", w.pick("0.5", "-2.25", "3.0"))
    constant = w.parameter("CONSTANT: tl.constexpr", w.pick("2", "7", "1.5", "True"))
    number = w.pick("1", "255", "0.25", "True", "100000", *(() if dtype.startswith("u") else ("-3", "-1.5")))
    for scalar in (whole, part, constant, number):
        floating = dtype in FLOATS or scalar == "part" or "." in scalar
        if scalar == "CONSTANT":
            floating = floating or "1.5" in dict(w.parameters)["CONSTANT: tl.constexpr"]
        _observe(w, f"{x} {w.pick('+', '*')} {scalar}", floating=floating)


def _observe(w: Writer, value: str, *, floating: bool) -> None:
    """Store the value in the widest type of its kind, and the width of its own type."""
    name = f"value{len(w.outputs)}"
    w.line(f"{name} = {value}")
    w.store(f"{name}.to({'tl.float64' if floating else 'tl.int64'})", "float64" if floating else "int64")
    w.store(f"{name}.dtype.primitive_bitwidth + {name}.dtype.is_floating() * 100", "int32", shape=())
