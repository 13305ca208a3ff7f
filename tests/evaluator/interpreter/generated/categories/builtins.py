"""Functions of `triton.language` and `tl.math` on blocks."""

from tests.evaluator.interpreter.generated.values import ALL, FLOATS
from tests.evaluator.interpreter.generated.writer import Writer


def extremes(w: Writer) -> None:
    """`tl.minimum`, `tl.maximum` and `tl.clamp`, with NaN kept or not."""
    dtype = w.cycle(*FLOATS, "int32", "uint8")
    x, y = w.load(dtype), w.load(dtype, "small")
    for function in ("minimum", "maximum"):
        w.store(f"tl.{function}({x}, {y})", dtype)
        if dtype in FLOATS:
            w.store(f"tl.{function}({x}, {y}, propagate_nan=tl.PropagateNan.ALL)", dtype)
    if dtype in FLOATS:
        w.store(f"tl.clamp({x}, -1.5, 2.0)", dtype)
        w.store(f"tl.clamp({x}, -1.0, 2.5, propagate_nan=tl.PropagateNan.ALL)", dtype)


def zeros_of_both_signs(w: Writer) -> None:
    """Minimum and maximum of 0 and -0: the hardware puts -0 below 0."""
    dtype = w.cycle("float32", "float64", "float16", "bfloat16")
    x, y = w.load(dtype, "zeros"), w.load(dtype, "zeros")
    for function in ("minimum", "maximum"):
        w.store(f"tl.{function}({x}, {y})", dtype)
        w.store(f"tl.{function}({x}, 0.0)", dtype)


def selections(w: Writer) -> None:
    """`tl.where` with blocks, scalars and broadcasting."""
    dtype = w.cycle(*ALL)
    x, y = w.load(dtype), w.load(dtype)
    c = w.load("bool")
    w.store(f"tl.where({c}, {x}, {y})", dtype)
    w.store(f"tl.where({c}, {x}, {w.pick('0', '1', '7')})", dtype)
    w.store(f"tl.where({c} == 0, {w.pick('3', '5')}, {y})", dtype)
    w.store(f"tl.abs({x})", dtype)


def roundings(w: Writer) -> None:
    """`tl.floor`, `tl.ceil` and correctly rounded roots and quotients."""
    dtype = w.cycle("float32", "float64", "float32")
    x, y = w.load(dtype, w.pick("halves", "edges")), w.load(dtype, "positive")
    w.store(f"tl.floor({x})", dtype)
    w.store(f"tl.ceil({x})", dtype)
    if dtype == "float32":
        w.store(f"tl.sqrt_rn({y})", dtype)
        w.store(f"tl.div_rn({x}, {y})", dtype)
    else:
        w.store(f"tl.sqrt({y})", dtype)


def fused_products(w: Writer) -> None:
    """`tl.fma`: one rounding."""
    dtype = w.cycle("float32", "float64", "float16", "bfloat16")
    x, y, z = (w.load(dtype, w.pick("wide", "finite")) for _ in range(3))
    w.store(f"tl.fma({x}, {y}, {z})", dtype)
    w.store(f"tl.fma({x}, {x}, -({x} * {x}))", dtype)


FUNCTIONS = (
    ("exp", "finite", "ex2"), ("exp2", "finite", "ex2 exactly scaled"), ("log", "positive", "lg2"),
    ("log2", "positive", "lg2"), ("sin", "finite", "sin"), ("cos", "finite", "sin"),
    ("sqrt", "positive", "sqrt approx"), ("rsqrt", "positive", "rsqrt"), ("erf", "finite", "erf"),
    ("exp", "edges", "ex2"), ("exp2", "edges", "ex2 exactly scaled"), ("log", "edges", "lg2"), ("log2", "edges", "lg2"),
    ("erf", "edges", "erf"), ("sqrt", "edges", "sqrt approx"), ("rsqrt", "edges", "rsqrt"),
    ("sin", "unit", "sin"), ("cos", "unit", "sin"),
)  # fmt: skip
"""Function of `tl`, kind of its operand, class of its error in fp32."""


def functions(w: Writer) -> None:
    """Exponentials, logarithms, roots, sines and error functions in fp32 and fp64."""
    name, kind, error = FUNCTIONS[w.number % len(FUNCTIONS)]
    dtype = "float32" if w.number % 3 or kind == "edges" else "float64"
    x = w.load(dtype, kind)
    w.store(f"tl.{name}({x})", dtype, error if dtype == "float32" else "guide fp64")
    w.store(f"tl.math.{name}({x})", dtype, error if dtype == "float32" else "guide fp64")


def composites(w: Writer) -> None:
    """`tl.sigmoid` and `tl.softmax`, which are written in Triton."""
    w.shape = w.random.choice(((64,), (32,)))
    x = w.load("float32", "finite")
    w.store(f"tl.sigmoid({x})", "float32", "softmax")
    w.store(f"tl.softmax({x})", "float32", "softmax")


def high_products(w: Writer) -> None:
    """`tl.umulhi`: the upper half of a product."""
    dtype = w.cycle("int32", "uint32", "int64", "uint64")
    x, y = w.load(dtype), w.load(dtype)
    w.store(f"tl.umulhi({x}, {y})", dtype)
    w.store(f"tl.umulhi({x}, {w.random.randint(3, 2**31 - 1)})", dtype)


def index_helpers(w: Writer) -> None:
    """`tl.cdiv`, `tl.swizzle2d`, `tl.arange`, `tl.full`, `tl.zeros` and their kin."""
    x = w.load("int32", "small")
    n = w.parameter("n", str(w.random.randint(2, 60)))
    size = w.shape[0]
    w.line(
        f"place = tl.arange(0, {size})", f"row, column = tl.swizzle2d(place // 8, place % 8, {size // 8}, 8, 2)",
        f"filled = tl.full(({size},), {w.random.randint(-9, 9)}, tl.int16)", f"nothing = tl.zeros_like({x})",
        f"zeros = tl.zeros(({size},), dtype=tl.uint8)",
    )  # fmt: skip
    w.store(f"tl.cdiv({n}, 8) + tl.arange({size}, {2 * size})", "int32")
    w.store("row * 1000 + column", "int32")
    w.store("filled + nothing + zeros", "int32")
    w.store(f"tl.cdiv({x} + 20, 7)", "int32")


def random_numbers(w: Writer) -> None:
    """Philox: integers and uniform numbers exactly, normal ones within the error of their functions."""
    seed = w.parameter("seed", str(w.random.randint(1, 2**31)))
    place = w.load("int32", "permutation")
    rounds = w.pick("", ", 7")
    w.store(f"tl.randint({seed}, {place}{rounds})", "int32")
    w.store(f"tl.rand({seed}, {place}{rounds})", "float32")
    w.store(f"tl.randn({seed}, {place})", "float32", "normal numbers")
    w.line(f"a, b, c, d = tl.randint4x({seed}, {place})")
    w.store("a ^ b ^ c ^ d", "int32")


def methods(w: Writer) -> None:
    """The same as methods of blocks."""
    dtype = w.cycle("float32", "int32", "float64")
    w.shape = (w.random.choice((4, 8)), w.random.choice((8, 16)))
    x = w.load(dtype, "few")
    w.store(f"{x}.sum(axis=1)", dtype if dtype in FLOATS else "int32", shape=w.shape[:1])
    w.store(f"{x}.max(axis=0)", dtype, shape=w.shape[1:])
    w.store(f"{x}.abs()", dtype)
    w.store(f"{x}.T", dtype, shape=w.shape[::-1])
    w.store(f"{x}.argmin(axis=1)", "int32", shape=w.shape[:1])
    w.store(f"{x}.cumsum(axis=0)", dtype if dtype in FLOATS else "int32")
    w.store(f"{x}.reshape({w.shape[0] * w.shape[1]})", dtype, shape=(w.shape[0] * w.shape[1],))
