"""Blocks that are moved: shapes, gathers, sorts, memory with masks, descriptors, atomics, dots."""

from tests.evaluator.interpreter.generated.values import ALL
from tests.evaluator.interpreter.generated.writer import Writer, offsets, triton_name


def shapes(w: Writer) -> None:
    """Reshape, transpose, permute, broadcast, expand."""
    dtype = w.cycle(*ALL)
    a, b, c = (w.random.choice((2, 4, 8)) for _ in range(3))
    w.shape = (a, b, c)
    x = w.load(dtype)
    w.store(f"tl.reshape({x}, ({a * b}, {c}))", dtype, shape=(a * b, c))
    w.store(f"tl.permute({x}, (2, 0, 1))", dtype, shape=(c, a, b))
    w.store(f"tl.trans({x}, 1, 0, 2)", dtype, shape=(b, a, c))
    w.store(f"tl.trans(tl.reshape({x}, {a * b}, {c}))", dtype, shape=(c, a * b))
    w.store(f"tl.ravel({x})", dtype, shape=(a * b * c,))
    row = w.load(dtype, shape=(c,))
    w.store(f"tl.broadcast_to({row}[None, :], ({b}, {c}))", dtype, shape=(b, c))
    w.store(f"tl.expand_dims({row}, 1) + tl.zeros(({c}, {a}), {triton_name(dtype)})", dtype, shape=(c, a))


def joins(w: Writer) -> None:
    """Join, split, interleave."""
    dtype = w.cycle(*ALL)
    w.shape = w.random.choice(((32,), (8, 4), (64,)))
    x, y = w.load(dtype), w.load(dtype)
    size = w.shape[-1]
    w.store(f"tl.join({x}, {y})", dtype, shape=(*w.shape, 2))
    w.store(f"tl.interleave({x}, {y})", dtype, shape=(*w.shape[:-1], 2 * size))
    w.line(f"even, odd = tl.split(tl.reshape({x}, {(*w.shape[:-1], size // 2, 2)}))")
    for name in ("even", "odd"):
        w.store(name, dtype, shape=(*w.shape[:-1], size // 2))


def gathers(w: Writer) -> None:
    """`tl.gather` along either axis."""
    dtype = w.cycle("float32", "int32", "float16", "int64", "int8")
    rows, columns = w.random.choice(((16, 8), (8, 32)))
    axis = w.random.randrange(2)
    x = w.load(dtype, shape=(rows, columns))
    index = w.load("int32", f"below {(rows, columns)[axis]}", shape=(rows, columns))
    w.store(f"tl.gather({x}, {index}, axis={axis})", dtype, shape=(rows, columns))


def sorts(w: Writer) -> None:
    """`tl.sort` and `tl.flip`."""
    dtype = w.cycle("int32", "float32", "int16", "float16", "uint8", "int64")
    w.shape = w.random.choice(((32,), (4, 16), (64,)))
    x = w.load(dtype, w.pick("small", "finite"))
    w.store(f"tl.sort({x})", dtype)
    w.store(f"tl.sort({x}, descending=True)", dtype)
    w.store(f"tl.flip({x}, {w.random.randrange(len(w.shape))})", dtype)


def histograms(w: Writer) -> None:
    """`tl.histogram`, with numbers beyond the last bin masked off."""
    bins = w.random.choice((16, 32, 64))
    x = w.load("int32", f"below {bins}")
    w.store(f"tl.histogram({x}, {bins})", "int32", shape=(bins,))
    mask = w.load("bool")
    w.store(f"tl.histogram({x}, {bins}, mask={mask})", "int32", shape=(bins,))


def masked_loads(w: Writer) -> None:
    """Masks and `other`, of another type too; tails of several programs."""
    dtype = w.cycle(*ALL)
    block = w.random.choice((32, 64))
    n = w.random.randint(block + 1, 4 * block - 1)
    pointer = w.argument(dtype, "edges", (n,))
    bound = w.parameter("n", str(n))
    w.grid = f"({-(-n // block)},)"
    other = w.pick("0", "7", "1", *(() if dtype.startswith(("i", "u")) else ("-1.5", 'float("-inf")')))
    w.line(f"place = tl.program_id(0) * {block} + tl.arange(0, {block})", f"inside = place < {bound}")
    w.line(f"odd = inside & (place % {w.random.randint(2, 5)} == 1)")
    w.line(f"x = tl.load({pointer} + place, mask=odd, other={other})")
    w.line(f"y = tl.load({pointer} + place, mask=inside)", "z = tl.where(odd, y, x)")
    for value in ("x", "z"):
        result = w.result(dtype, shape=(n,))
        w.line(f"tl.store({result} + place, {value}, mask=inside)")


def masked_stores(w: Writer) -> None:
    """Stores of some elements, casts by stores, scalars stored to blocks of addresses."""
    dtype = w.cycle("int32", "float32", "int64", "float16", "uint8")
    x, y = w.load(dtype, "small"), w.load(dtype, "small")
    target = w.result(dtype, start="x0.clone()")
    w.line(f"place = {offsets(w.shape)}", f"tl.store({target} + place, {y} + 1, mask={x} > 0)")
    w.line(f"tl.store({target} + place, {w.random.randint(2, 9)}, mask={y} == 0)")
    w.store(f"{x} + 1", w.pick("int16", "int64", "int32"))
    w.store(f"{x}.to(tl.float32)", "float16")


def programs(w: Writer) -> None:
    """Grids of two and three dimensions."""
    x, y, z = (w.random.randint(1, 4) for _ in range(3))
    w.grid = f"({x}, {y}, {z})"
    pointer = w.argument("int32", "small", (x * y * z, 16))
    w.line(
        "number = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + tl.program_id(0)",
        "place = number * 16 + tl.arange(0, 16)", f"x = tl.load({pointer} + place)",
    )  # fmt: skip
    for value in (
        "x * number",
        "tl.program_id(axis=0) * 100 + tl.program_id(1) * 10 + tl.program_id(2) + tl.arange(0, 16)",
    ):
        result = w.result("int32", shape=(x * y * z * 16,))
        w.line(f"tl.store({result} + place, {value})")


def block_pointers(w: Writer) -> None:
    """`tl.make_block_ptr`, advanced, with bounds that pad zeros or NaN."""
    dtype = w.cycle("float32", "float16", "int32")
    rows, columns = w.random.randint(5, 15), w.random.randint(9, 31)
    pointer = w.argument(dtype, "small", (rows, columns))
    padding = "zero" if dtype == "int32" else w.pick("zero", "nan")
    w.line(
        f"block = tl.make_block_ptr({pointer}, ({rows}, {columns}), ({columns}, 1), (0, 0), (8, 16), (1, 0))",
        f'x = tl.load(block, boundary_check=(0, 1), padding_option="{padding}")',
        "block = tl.advance(block, (4, 8))", f'y = tl.load(block, boundary_check=(0, 1), padding_option="{padding}")',
    )  # fmt: skip
    w.store("x", dtype, shape=(8, 16))
    w.store("y", dtype, shape=(8, 16))


def descriptors(w: Writer) -> None:
    """Tensor descriptors made on the device: loads that read zeros beyond the bounds, stores that leave them."""
    dtype = w.cycle("float32", "float16", "int32")
    rows, columns = w.random.randint(9, 15), w.random.choice((16, 24))
    pointer = w.argument(dtype, "small", (rows, columns))
    target = w.result(dtype, shape=(rows, columns), start="x0.clone()")
    w.line(
        f"source = tl.make_tensor_descriptor({pointer}, ({rows}, {columns}), ({columns}, 1), (8, 16))",
        f"target = tl.make_tensor_descriptor({target}, ({rows}, {columns}), ({columns}, 1), (8, 16))",
        f"x = source.load([{w.random.randint(0, 7)}, {w.pick('0', '8')}])", "y = source.load([0, 0])",
        f"target.store([{w.random.randint(2, 8)}, 0], y + 1)",
    )  # fmt: skip
    w.store("x", dtype, shape=(8, 16))


def atomics_apart(w: Writer) -> None:
    """Atomics at addresses of their own: what they return and what they leave."""
    dtype = w.cycle("int32", "int64", "uint32", "uint64")
    w.argument(dtype)
    y, place = w.load(dtype), offsets(w.shape)
    for name in w.random.sample(["add", "max", "min", "and", "or", "xor", "xchg"], 3):
        target = w.result(dtype, start="x0.clone()")
        mask = w.pick("", f", mask={y} > 3")
        w.line(f"old = tl.atomic_{name}({target} + {place}, {y}{mask})")
        w.store("old" if not mask else f"tl.where({y} > 3, old, 0)", dtype)


def atomics_together(w: Writer) -> None:
    """Atomics of many lanes and programs at the same addresses, in any order."""
    dtype = w.cycle("int32", "float32", "int64", "float64", "uint32", "float16")
    w.grid = f"({w.random.randint(1, 4)},)"
    kinds = ["add", "max", "min"] if dtype != "float16" else ["add"]
    x = w.load(dtype, "few")
    index = w.load("int32", "below 8")
    for name in kinds:
        target = w.result(dtype, start="x0.clone()")
        w.line(f"tl.atomic_{name}({target} + {index}, {x}, sem={w.pick(*SEMANTICS)})")


SEMANTICS = ('"relaxed"', '"acq_rel"', '"release"')


def compare_and_swap(w: Writer) -> None:
    """`tl.atomic_cas` of blocks and of a scalar."""
    dtype = w.cycle("int32", "int64")
    w.argument(dtype, "few")
    y, z = w.load(dtype, "few"), w.load(dtype, "small")
    target = w.result(dtype, start="x0.clone()")
    w.line(f"old = tl.atomic_cas({target} + {offsets(w.shape)}, {y}, {z})")
    w.store("old", dtype)


DOTS = (
    ("float32", "ieee", "dot"), ("float32", "tf32", "dot"), ("float32", "tf32x3", "dot split"),
    ("float16", "", "dot"), ("bfloat16", "", "dot"), ("int8", "", "exact"), ("float8_e5m2", "", "dot fp8"),
    ("float8_e4m3fn", "", "dot fp8"),
)  # fmt: skip
"""Operands, input precision and class of the error of a rounded dot."""


def exact_dots(w: Writer) -> None:
    """Dots of small whole numbers, exact at every precision, with and without an accumulator."""
    _dot(w, "small", rounded=False)


def rounded_dots(w: Writer) -> None:
    """Dots of fractions: each precision rounds its operands, and the sum has an order."""
    _dot(w, "unit", rounded=True)


def _dot(w: Writer, kind: str, *, rounded: bool) -> None:
    dtype, precision, error = DOTS[w.number % len(DOTS)]
    m, n = (w.random.choice((16, 32, 64)) for _ in range(2))
    k = w.random.choice((32, 64) if dtype in ("int8", "float8_e5m2", "float8_e4m3fn") else (16, 32, 64))
    w.options["num_warps"] = w.pick("1", "4", "4")
    a, b = w.load(dtype, kind, (m, k)), w.load(dtype, kind, (k, n))
    target = "int32" if dtype == "int8" else "float32"
    said = f', input_precision="{precision}"' if precision else f", out_dtype=tl.{target}"
    error = error if rounded else "exact"
    w.store(f"tl.dot({a}, {b}{said})", target, error, (m, n))
    if rounded and error != "exact":
        w.line(f"size = tl.full(({m}, {n}), {k / 4}, tl.float32)")  # the mean of the products' absolutes, times k
        w.store("size", "float32", "scale", (m, n))
    start = w.load(target, "small", (m, n))
    w.store(f"tl.dot({a}, {b}, acc={start}{said})", target, error, (m, n))
    if rounded and error != "exact":
        w.store(f"size + tl.abs({start})", "float32", "scale", (m, n))


def batched_dots(w: Writer) -> None:
    """Dots of three dimensions, and transposed operands."""
    dtype = w.cycle("float16", "float32", "bfloat16")
    k = w.random.choice((16, 32))
    a, b = w.load(dtype, "few", (2, 16, k)), w.load(dtype, "few", (2, k, 16))
    w.store(f'tl.dot({a}, {b}, input_precision="ieee")', "float32", shape=(2, 16, 16))
    c = w.load(dtype, "few", (16, k))
    w.store(f'tl.dot({c}, tl.trans({c}), input_precision="ieee")', "float32", shape=(16, 16))
    if dtype == "float16":
        w.store(f"tl.dot({c}, tl.trans({c}), out_dtype=tl.float16)", "float16", shape=(16, 16))


def dots_in_loops(w: Writer) -> None:
    """A product of matrices over several steps, which the compiler pipelines."""
    dtype, precision, _ = DOTS[w.number % 5]
    steps = w.random.randint(2, 5)
    left, right = w.argument(dtype, "small", (32, 32 * steps)), w.argument(dtype, "small", (32 * steps, 32))
    said = f', input_precision="{precision}"' if precision else ""
    w.options["num_warps"], w.options["num_stages"] = "4", w.pick("1", "2", "3")
    count = w.parameter("steps", str(steps))
    w.line(
        "row, column = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]",
        "total = tl.zeros((32, 32), tl.float32)", f"for step in range({count}):",
        f"    a = tl.load({left} + row * {32 * steps} + step * 32 + column)",
        f"    b = tl.load({right} + (step * 32 + row) * 32 + column)", f"    total = tl.dot(a, b, total{said})",
    )  # fmt: skip
    w.store("total", "float32", shape=(32, 32))
