"""libdevice: what Triton maps, by signature. Its declarations are those of the CUDA backend."""

from tests.evaluator.interpreter.generated.writer import Writer

MODES = ("rn", "rz", "rd", "ru")
BITS = (
    ("clz", "int32 > int32"), ("clz", "int64 > int32"), ("popc", "int32 > int32"), ("popc", "int64 > int32"),
    ("byte_perm", "int32 int32 int32 > int32"), ("mulhi", "int32 int32 > int32"), ("mulhi", "uint32 uint32 > uint32"),
    ("mulhi", "int64 int64 > int64"), ("mulhi", "uint64 uint64 > uint64"), ("mul24", "int32 int32 > int32"),
    ("mul24", "uint32 uint32 > uint32"), ("brev", "int32 > int32"), ("brev", "int64 > int64"),
    ("sad", "int32 int32 uint32 > int32"), ("sad", "uint32 uint32 uint32 > int32"), ("abs", "int32 > int32"),
    ("abs", "int64 > int64"), ("hadd", "int32 int32 > int32"), ("hadd", "uint32 uint32 > uint32"),
    ("rhadd", "int32 int32 > int32"), ("rhadd", "uint32 uint32 > uint32"), ("ffs", "int32 > int32"),
    ("ffs", "int64 > int32"), ("hiloint2double", "int32 int32 > float64 bits"),
)  # fmt: skip
"""Functions of integers -> signature (operands > result). `bits`: the result's bits are stored."""
FLOAT_BITS = (
    ("double2loint", "float64 > int32"), ("double2hiint", "float64 > int32"), ("int_as_float", "int32 > float32 bits"),
    ("float_as_int", "float32 > int32"), ("uint_as_float", "uint32 > float32 bits"),
    ("float_as_uint", "float32 > int32"),
    ("longlong_as_double", "int64 > float64 bits"), ("double_as_longlong", "float64 > int64"),
    ("isnan", "float32 > int32"), ("isnan", "float64 > int32"), ("isinf", "float32 > int32"),
    ("isinf", "float64 > int32"), ("signbit", "float32 > int32"), ("signbit", "float64 > int32"),
    ("finitef", "float32 > int32"), ("isfinited", "float64 > int32"), ("ilogb", "float32 > int32"),
    ("ilogb", "float64 > int32"),
)  # fmt: skip
EXACT = ("abs", "floor", "ceil", "trunc", "rint", "nearbyint", "round", "logb")
"""Functions of one float, exact in fp32 and fp64."""
EXACT_OF_TWO = ("copysign", "nextafter", "fmod", "remainder", "fdim")
WHOLE = ("llrint", "llround")
DIRECTED = (*(f"{name}_{mode}" for name in ("add", "sub", "mul", "div", "rcp", "sqrt", "fma") for mode in MODES),)
CONVERSIONS = tuple(
    f"{source}2{target}_{mode}"
    for source, targets in (
        ("double", ("float", "int", "uint", "ll", "ull")), ("float", ("int", "uint", "ll", "ull")),
        ("int", ("float",)), ("uint", ("float",)), ("ll", ("float", "double")), ("ull", ("float", "double")),
    )
    for target in targets
    for mode in MODES
)  # fmt: skip
NAMES = {"double": "float64", "float": "float32", "int": "int32", "uint": "uint32", "ll": "int64", "ull": "uint64"}
ROUNDED = {
    "exp": (1, "finite"), "exp2": (2, "finite"), "exp10": (2, "finite"), "expm1": (1, "finite"), "log": (1, "positive"),
    "log2": (1, "positive"), "log10": (2, "positive"), "log1p": (1, "positive"), "sin": (2, "finite"),
    "cos": (2, "finite"), "tan": (4, "unit"), "asin": (4, "unit"), "acos": (2, "unit"), "atan": (2, "finite"),
    "sinh": (3, "finite"), "cosh": (2, "finite"), "tanh": (2, "finite"), "asinh": (3, "finite"),
    "acosh": (4, "positive"), "atanh": (3, "unit"), "sqrt": (1, "positive"), "rsqrt": (2, "positive"),
    "cbrt": (1, "finite"), "rcbrt": (1, "positive"), "sinpi": (1, "unit"), "cospi": (1, "unit"), "erf": (2, "finite"),
    "erfc": (4, "unit"), "rsqrt_rn": (0, "positive"),
}  # fmt: skip
"""Function of one float -> most ulp in fp32 by the programming guide, and kind of operand."""
ROUNDED_OF_MORE = {
    "pow": (4, ("positive", "finite")), "atan2": (3, ("finite", "positive")), "hypot": (3, ("finite", "finite")),
    "rhypot": (2, ("positive", "finite")), "norm3d": (3, ("finite",) * 3), "norm4d": (3, ("finite",) * 4),
    "rnorm3d": (2, ("positive",) * 3), "rnorm4d": (2, ("positive",) * 4),
}  # fmt: skip
SPECIAL = {
    "lgamma": "gamma", "tgamma": "gamma", "j0": "bessel", "j1": "bessel", "y0": "bessel", "y1": "bessel",
    "cyl_bessel_i0": "bessel", "cyl_bessel_i1": "bessel", "erfcx": "distribution", "normcdf": "distribution",
}  # fmt: skip
"""Special function of a positive number -> class of its error."""
QUANTILES = ("erfinv", "erfcinv", "normcdfinv")
FAST = {
    "fast_sinf": ("unit", "fast sine"), "fast_cosf": ("unit", "fast sine"), "fast_tanf": ("unit", "fast tangent"),
    "fast_expf": ("finite", "fast"), "fast_exp10f": ("unit", "fast"), "fast_logf": ("positive", "fast"),
    "fast_log2f": ("positive", "fast"), "fast_log10f": ("positive", "fast"),
}  # fmt: skip


def _signature(w: Writer, function: str, signature: str, kind: str = "edges", error: str = "exact") -> None:
    """Call a function by its signature."""
    operands, _, result = signature.partition(" > ")
    names = [w.load(dtype, kind) for dtype in operands.split()]
    target, _, as_bits = result.partition(" ")
    value = f"libdevice.{function}({', '.join(names)})"
    if as_bits:
        width = target.removeprefix("float")
        value, target = f"{value}.to(tl.int{width}, bitcast=True)", f"int{width}"
    w.store(value, target, error)


def integer_functions(w: Writer) -> None:
    """Bits, halves of products, means, bytes."""
    for step in range(2):
        _signature(w, *BITS[(2 * w.number + step) % len(BITS)])


def bit_patterns(w: Writer) -> None:
    """Bits of floats, and what they are."""
    for step in range(2):
        function, signature = FLOAT_BITS[(2 * w.number + step) % len(FLOAT_BITS)]
        _signature(w, function, signature, "finite" if "_as_" in function or "2" in function else "edges")


def exact_functions(w: Writer) -> None:
    """Functions of floats that round to whole numbers or move bits."""
    dtype = w.cycle("float32", "float64")
    name = EXACT[w.number // 2 % len(EXACT)]
    _signature(w, name, f"{dtype} > {dtype}", "edges")
    _signature(w, name, f"{dtype} > {dtype}", "halves")
    other = EXACT_OF_TWO[w.number // 2 % len(EXACT_OF_TWO)]
    _signature(w, other, f"{dtype} {dtype} > {dtype}", "wide")
    _signature(w, WHOLE[w.number // 2 % 2], f"{dtype} > int64", "halves")


def scaling(w: Writer) -> None:
    """`ldexp`, `scalbn`, `pow` with whole powers, `fma`."""
    dtype = w.cycle("float32", "float64")
    x, n = w.load(dtype, "finite"), w.load("int32", "small")
    for name in ("ldexp", "scalbn"):
        w.store(f"libdevice.{name}({x}, {n})", dtype)
    y, z = w.load(dtype, "wide"), w.load(dtype, "wide")
    w.store(f"libdevice.fma({x}, {y}, {z})", dtype)
    w.store(f"libdevice.pow({x}, {n})", dtype, "guide 9" if dtype == "float32" else "guide fp64")


def directed_rounding(w: Writer) -> None:
    """Arithmetic that is told how to round."""
    dtype = "float32" if w.number % 3 else "float64"
    for step in range(3):
        name = DIRECTED[(3 * w.number + step) % len(DIRECTED)]
        count = {"rcp": 1, "sqrt": 1, "fma": 3}.get(name[:-3], 2)
        kind = "positive" if name[:-3] in ("rcp", "sqrt", "div") else "wide"
        _signature(w, name, f"{' '.join([dtype] * count)} > {dtype}", kind)


def directed_conversions(w: Writer) -> None:
    """Conversions that are told how to round, with values that the target does not hold."""
    for step in range(4):
        name = CONVERSIONS[(4 * w.number + step) % len(CONVERSIONS)]
        source, _, rest = name.partition("2")
        target = NAMES[rest[:-3]]
        signed = target.replace("uint", "int")
        kind = w.pick("halves", "edges", "wide") if source in ("float", "double") else "edges"
        _signature(w, name, f"{NAMES[source]} > {signed}", kind)


def rounded_functions(w: Writer) -> None:
    """Transcendental functions in fp32 and fp64."""
    names = list(ROUNDED)
    name = names[w.number % len(names)]
    ulps, kind = ROUNDED[name]
    for dtype in ("float32", "float64") if name != "rsqrt_rn" else ("float32",):
        x = w.load(dtype, kind)
        value = f"libdevice.{name}({x} + 1)" if name == "acosh" else f"libdevice.{name}({x})"
        w.store(value, dtype, f"guide {ulps}" if dtype == "float32" else "guide fp64")


def edges_of_functions(w: Writer) -> None:
    """The same at zeros, infinities, NaN and the extremes."""
    names = [name for name in ROUNDED if name not in ("sin", "cos", "tan", "sinpi", "cospi", "rsqrt_rn")]
    name = names[w.number % len(names)]
    x = w.load("float32", "edges")
    w.store(f"libdevice.{name}({x})", "float32", f"guide {ROUNDED[name][0]}")


def functions_of_more(w: Writer) -> None:
    """Powers, angles and lengths."""
    name = list(ROUNDED_OF_MORE)[w.number % len(ROUNDED_OF_MORE)]
    ulps, kinds = ROUNDED_OF_MORE[name]
    for dtype in ("float32", "float64"):
        operands = ", ".join(w.load(dtype, kind) for kind in kinds)
        w.store(f"libdevice.{name}({operands})", dtype, f"guide {ulps}" if dtype == "float32" else "guide fp64")


def special_functions(w: Writer) -> None:
    """Gamma and Bessel functions, distributions and their quantiles."""
    name = list(SPECIAL)[w.number % len(SPECIAL)]
    x = w.load("float32", "positive")
    w.store(f"libdevice.{name}({x})", "float32", SPECIAL[name])
    quantile = QUANTILES[w.number % len(QUANTILES)]
    y = w.load("float32", "unit")
    inside = f"{y} * 0.9" if quantile == "erfinv" else f"tl.abs({y}) * 0.9 + 0.05"
    w.store(f"libdevice.{quantile}({inside})", "float32", "quantile")


def fast_functions(w: Writer) -> None:
    """Functions that the hardware approximates."""
    name = list(FAST)[w.number % len(FAST)]
    kind, error = FAST[name]
    x = w.load("float32", kind)
    w.store(f"libdevice.{name}({x})", "float32", error)
    y = w.load("float32", "positive")
    w.store(f"libdevice.fast_dividef({x}, {y})", "float32", "fast")
    w.store(f"libdevice.fast_powf({y}, {x})", "float32", "fast power")
    w.store(f"libdevice.saturatef({x})", "float32")
