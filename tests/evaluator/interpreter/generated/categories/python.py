"""Python that the compiler gives a meaning of its own: and/or/not, min/max, conditions, tuples, loops, functions."""

from tests.evaluator.interpreter.generated.values import ALL
from tests.evaluator.interpreter.generated.writer import Writer

BOOLEANS = (
    "{p} and {q}", "{p} or {q}", "not {p}", "not ({p} and {q})", "({p} or {q}) and {r}", "{p} and {q} and {r}",
    "not {p} or {r}", "(not {q}) and (not {r})", "{p} or {q} or {r}", "FLAG and {p}", "FLAG or {p}", "not FLAG",
    "(n > 20) and (n < 100)", "(n > 20) or {p}", "not (n == 7)", "FLAG and n > 3",
)  # fmt: skip


def booleans(w: Writer) -> None:
    """`and`, `or`, `not` of blocks, scalars and constants."""
    dtype = w.cycle("int32", "float32", "int64", "float16", "uint8")
    x, y = w.load(dtype, "few"), w.load(dtype, "few")
    w.parameter("n", w.pick("7", "33", "250"))
    w.parameter("FLAG: tl.constexpr", w.pick("True", "False"))
    p, q, r = f"({x} > 0)", f"({y} != 1)", f"({x} < {y})"
    for text in w.random.sample(BOOLEANS, 4):
        value = text.format(p=p, q=q, r=r)
        w.store(f"tl.where({value}, {x}, {y})", dtype)


def extremes_of_python(w: Writer) -> None:
    """Python's `min` and `max` of blocks, scalars and numbers; NaN loses."""
    dtype = w.cycle(*ALL)
    x, y = w.load(dtype, "edges"), w.load(dtype, "small")
    n = w.parameter("n", w.pick("3", "4", "11"))
    w.store(f"max({x}, {w.pick('0', '2', '1')})", dtype)
    w.store(f"min({x}, {y})", dtype)
    w.store(f"max(min({x}, {y}), {n})", dtype)
    w.store(f"min({n}, 5) + max({n}, 7, 4)", "int32", shape=())


def conditions(w: Writer) -> None:
    """`if` on scalars and constants, nested and with names that one branch alone assigns."""
    dtype = w.cycle("int32", "float32", "int64")
    x, y = w.load(dtype, "small"), w.load(dtype, "small")
    n, m = w.parameter("n", str(w.random.randint(2, 9))), w.parameter("m", str(w.random.randint(2, 9)))
    w.parameter("MODE: tl.constexpr", w.pick("0", "1", "2"))
    w.line(
        f"total = {x} + 1", f"if {n} {w.pick('<', '>', '==', '!=', '<=')} {m}:", f"    total = total * {y}",
        "    if n > 4:", "        total += 3", "    else:", f"        total -= {y}",
        f"elif n {w.pick('<', '>=')} 5:", f"    total = {y} - total",
        "if MODE == 1:", "    total += 10", "elif MODE == 2:", "    total = -total",
        "if MODE == 0 and n > 3:", "    total += n",
    )  # fmt: skip
    w.store("total", dtype)
    w.store(f"{x} if n > m else {y}", dtype)
    w.store(f"{y} * 2 if MODE else {x}", dtype)


def scalars_in_branches(w: Writer) -> None:
    """Conditions on what was loaded, with scalars that branches assign."""
    x = w.argument("int32", "small")
    w.line(
        f"first = tl.load({x})", f"second = tl.load({x} + 1)", "sign = 0", "size = first",
        "if first > second:", "    sign = 1", "elif first < second:", "    sign = -1", "    size = second",
        "if not (first == second) and sign >= 0:", f"    size = size * {w.random.randint(2, 7)}",
        "largest = first if first > second else second",
    )  # fmt: skip
    for name in ("sign", "size", "largest"):
        w.store(name, "int32", shape=())


def counted_loops(w: Writer) -> None:
    """`for` over ranges with bounds of the run and of the compilation, with tensors carried along."""
    dtype = w.cycle("int32", "int64", "uint32")
    x = w.load(dtype)
    n = w.parameter("n", str(w.random.randint(2, 11)))
    w.parameter("STEPS: tl.constexpr", str(w.random.randint(2, 6)))
    start, step = w.random.randint(0, 3), w.random.randint(1, 3)
    span = w.pick(
        f"range({n})", f"range({start}, {n})", f"range({start}, {n}, {step})", f"tl.range({n})",
        f"tl.range({start}, {n}, {step})", "range(STEPS)", "tl.range(0, STEPS, num_stages=2)", f"range({n}, 2)",
    )  # fmt: skip
    w.line(
        f"total = {x}", "last = 0", f"for i in {span}:", f"    total = total * {w.random.randint(2, 5)} + i",
        f"    if i % 2 == {w.random.randint(0, 1)}:", "        total ^= 3", "    last = i", "count = 0",
        f"for j in tl.static_range({w.random.randint(1, 5)}):", f"    total += j * {w.random.randint(1, 9)}",
        "    for k in range(j, 4):", "        count += k",
    )  # fmt: skip
    w.store("total", dtype)
    w.store("last", "int32", shape=())
    w.store("count", "int32", shape=())


def loops_backwards(w: Writer) -> None:
    """Loops with a negative step, which is a constant."""
    x = w.load("int32", "small")
    n = w.parameter("n", str(w.random.randint(3, 12)))
    step = w.pick("-1", "-2", "-3")
    w.line(
        f"total = {x}", f"for i in range({n}, {w.random.randint(-2, 2)}, {step}):", "    total = total * 3 - i",
        f"for j in tl.static_range({w.random.randint(4, 7)}, 0, -1):", "    total ^= j",
    )  # fmt: skip
    w.store("total", "int32")


def while_loops(w: Writer) -> None:
    """`while` on scalars: greatest common divisors, Collatz's steps, digits."""
    x = w.argument("int32", "positive")
    w.line(f"a = tl.load({x})", f"b = tl.load({x} + 1)", "steps = 0")
    w.line(
        *w.random.choice(
            (
                ("while b != 0:", "    rest = a % b", "    a = b", "    b = rest", "    steps += 1"),
                ("while (a > 1) and (steps < 300):", "    if a % 2 == 0:", "        a = a // 2", "    else:",
                 "        a = 3 * a + 1", "    steps += 1"),
                ("while (a > 0) or (b > 0):", "    steps += (a & 1) + (b & 1)", "    a >>= 1", "    b = b // 2"),
                ("while a * a > b:", "    a -= 1", "    steps += 2", "    while b < 7:", "        b += 2"),
            )
        )
    )  # fmt: skip
    for name in ("a", "b", "steps"):
        w.store(name, "int32", shape=())


def tuples(w: Writer) -> None:
    """Tuples: taken apart, swapped, returned, carried through loops."""
    dtype = w.cycle("int32", "float32")
    w.function("def both(a, b):\n    return a + b, a - b")
    w.function("def first_of(pair):\n    return pair[0] * 2 + pair[1]")
    x, y = w.load(dtype, "small"), w.load(dtype, "small")
    w.line(
        f"a, b = {x}, {y}", f"for i in range({w.random.randint(1, 4)}):", "    a, b = b, a + b",
        "total, rest = both(a, b)", "pair = (total, rest)", f"c = first_of(pair) + first_of(({x}, {y}))", "a, b = b, a",
    )  # fmt: skip
    for name in ("a", "b", "c", "pair[1]"):
        w.store(name, dtype)


def device_functions(w: Writer) -> None:
    """Device functions with defaults, constants, types and functions as arguments."""
    dtype = w.cycle("int32", "float32", "int64", "float16")
    w.function("def double(x):\n    return x + x")
    w.function("def square(x):\n    return x * x")
    w.function(
        "def apply(x, function: tl.constexpr, times: tl.constexpr = 1):\n    for _ in tl.static_range(times):\n"
        "        x = function(x)\n    return x"
    )
    w.function("def convert(x, kind: tl.constexpr, SHIFT: tl.constexpr):\n    return (x + SHIFT).to(kind)")
    w.function(
        "def power(x, n: tl.constexpr):\n    if n == 0:\n        return x * 0 + 1\n    else:\n"
        "        return x * power(x, n - 1)"
    )
    w.function("def choose(x, y, n):\n    result = y\n    if n > 3:\n        result = x + n\n    return result")
    x, y = w.load(dtype, "few"), w.load(dtype, "few")
    n = w.parameter("n", w.pick("2", "3", "5"))
    w.store(f"apply({x}, double, {w.random.randint(1, 3)})", dtype)
    w.store(f"apply({y}, function={w.pick('square', 'double')})", dtype)
    w.store(f"convert({x}, tl.int32, {w.random.randint(1, 5)})", "int32")
    w.store(f"power({x}, {w.random.randint(0, 3)})", dtype)
    w.store(f"choose({x}, {y}, {n})", dtype)


def constants(w: Writer) -> None:
    """Arithmetic of constants: Python's own, with floor division and remainder of negative numbers."""
    x = w.load("int32", "small")
    a, b = w.random.randint(-20, 20), w.random.choice([-7, -3, 2, 5])
    w.parameter("A: tl.constexpr", str(a))
    w.parameter("B: tl.constexpr", str(b))
    w.line("HALF: tl.constexpr = A // 2", "kept = A // B")
    for text in ("A // B", "A % B", "A - B * 3", "kept", "HALF + (A if A > B else B)", "(A << 2) ^ B", "-A + abs_of"):
        if text.endswith("abs_of"):
            text = text.replace("abs_of", "(B if B > 0 else -B)")
        w.store(f"{x} + ({text})", "int32")
    w.store(f"{x} * (A / B)", "float32")
