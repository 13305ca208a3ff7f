"""What is seldom written: other names of operators, hints, assertions, words of machine code, mapped functions."""

from tests.evaluator.interpreter.generated.values import ALL, FLOATS
from tests.evaluator.interpreter.generated.writer import Writer

ASSEMBLY = (
    ("cvt.rna.tf32.f32 $0, $1;", "=r,r", "exact"), ("sqrt.rn.f32 $0, $1;", "=r,r", "exact"),
    ("rcp.rn.f32 $0, $1;", "=r,r", "exact"), ("ex2.approx.f32 $0, $1;", "=r,r", "fast"),
    ("rcp.approx.f32 $0, $1;", "=r,r", "fast"), ("tanh.approx.f32 $0, $1;", "=r,r", "fast tanh"),
)  # fmt: skip
"""Instruction of one fp32, its constraints, class of its error."""


def other_names(w: Writer) -> None:
    """`tl.add`, `tl.sub`, `tl.mul`, `tl.cast`, `tl.fdiv`, `tl.reduce_or`, `tl.view`."""
    dtype = w.cycle(*ALL)
    x, y = w.load(dtype, "small"), w.load(dtype, "small")
    for function in ("add", "sub", "mul"):
        w.store(f"tl.{function}({x}, {y})", dtype)
    w.store(f"tl.cast({x}, tl.float32)", "float32")
    w.store(f"tl.view({x}, {w.shape})", dtype, "undefined")
    if dtype in FLOATS:
        w.store(f"tl.fdiv({x}.to(tl.float32), {y}.to(tl.float32) + 20.5)", "float32", "division")
    else:
        w.store(f"tl.reduce_or({x}, 0)", "int64", shape=())


def largest(w: Writer) -> None:
    """`tl.topk`."""
    w.shape = w.random.choice(((32,), (4, 16)))
    dtype = w.cycle("int32", "float32", "float16")
    x = w.load(dtype, w.pick("small", "finite"))
    count = w.random.choice((2, 4, 8))
    w.store(f"tl.topk({x}, {count})", dtype, shape=(*w.shape[:-1], count))


def hints(w: Writer) -> None:
    """Hints to the compiler, assertions and barriers, which change nothing."""
    x = w.argument("int32", "small")
    n = w.parameter("n", "16")
    size = w.shape[0]
    w.line(
        f"place = tl.max_contiguous(tl.multiple_of(tl.arange(0, {size}), {size}), {size})", f"tl.assume({n} > 0)",
        f"value = tl.load({x} + place)", "tl.debug_barrier()", 'tl.device_assert(value > -100, "small")',
        "assert n < 17", f"tl.static_assert(value.shape[0] == {size})",
    )  # fmt: skip
    w.store(f"tl.max_constancy(value, 1) * {n}", "int32")


def assembly(w: Writer) -> None:
    """`tl.inline_asm_elementwise`, one instruction at a time."""
    text, constraints, error = ASSEMBLY[w.number % len(ASSEMBLY)]
    x = w.load("float32", "positive")
    call = f'"{text}", "{constraints}", [{x}], dtype=tl.float32, is_pure=True, pack=1'
    w.store(f"tl.inline_asm_elementwise({call})", "float32", error)


def mapped(w: Writer) -> None:
    """`tl.map_elementwise`: a function of scalars, with branches, on every element."""
    dtype = w.cycle("int32", "float32")
    x, y = w.load(dtype, "small"), w.load(dtype, "small")
    w.function("def steep(x, y):\n    result = y\n    if x > y:\n        result = x * 2\n    return result")
    w.store(f"tl.map_elementwise(steep, {x}, {y})", dtype)


def counters(w: Writer) -> None:
    """Philox with its four counters, and uniform numbers four at a time."""
    place = w.load("uint32", "permutation")
    seed = w.parameter("seed", str(w.random.randint(1, 2**40)))
    w.line(f"a, b, c, d = tl.philox({seed}, {place}, {place} + 7, {place} * 0, {place} * 0)")
    w.store("a ^ b", "uint32")
    w.store("c + d", "uint32")
    w.line(f"e, f, g, h = tl.rand4x({seed}, {place})")
    for name in ("e", "h"):
        w.store(name, "float32")


def words_of_floats(w: Writer) -> None:
    """Conversions between floats and integers that other categories leave out."""
    x, y = w.load("int32"), w.load("uint32")
    w.store(f"libdevice.int2double_rn({x})", "float64")
    w.store(f"libdevice.uint2double_rn({y})", "float64")
