"""Operators of Python on blocks: arithmetic that wraps or rounds, bits, shifts, comparisons, division."""

from tests.evaluator.interpreter.generated.values import ALL, FLOATS, INTEGERS
from tests.evaluator.interpreter.generated.writer import Writer


def integer_tree(w: Writer, names: list[str], depth: int) -> str:
    """Write an expression of integers of one type; it may wrap around."""
    if depth == 0:
        return w.random.choice([*names, *names, str(w.random.randint(0, 90))])
    left, right = (integer_tree(w, names, depth - 1) for _ in range(2))
    left = w.pick(*names) if left.isdigit() and right.isdigit() else left
    if w.random.random() < 0.25:
        name = w.pick(*names)
        return w.pick(f"(~{name})", f"(-{name})", f"tl.abs({name})", f"(({left}) ^ {name})")
    if w.random.random() < 0.2:
        compare = w.pick("<", "<=", ">", ">=", "==", "!=")
        return f"tl.where({w.pick(*names)} {compare} {right}, {left}, {w.pick(*names)})"
    if w.random.random() < 0.2:
        return f"{w.pick('tl.minimum', 'tl.maximum')}({left}, {right})"
    return f"({left} {w.pick('+', '-', '*', '+', '-', '*', '&', '|', '^')} {right})"


def integers(w: Writer) -> None:
    """Expressions of integers of one type, which wrap around."""
    dtype = w.cycle(*INTEGERS)
    names = [w.load(dtype) for _ in range(3)]
    for depth in (1, 2, 3):
        w.store(integer_tree(w, names, depth), dtype)


def shifts(w: Writer) -> None:
    """Shifts by less than the width: by blocks, numbers and arguments."""
    dtype = w.cycle(*INTEGERS)
    x, places = w.load(dtype), w.load(dtype, "shift")
    fixed = w.random.randint(0, 7)
    argument = w.parameter("places", str(w.random.randint(2, 7)))
    for amount in (places, str(fixed), argument):
        w.store(f"{x} << {amount}", dtype)
        w.store(f"{x} >> {amount}", dtype)


def shifts_beyond(w: Writer) -> None:
    """Shifts by the width and more, which the hardware clamps; LLVM leaves their result open."""
    dtype = w.cycle("int32", "uint32", "int64", "uint64")
    x, places = w.load(dtype), w.load(dtype, "beyond")
    w.store(f"{x} << {places}", dtype)
    w.store(f"{x} >> {places}", dtype)


def comparisons(w: Writer) -> None:
    """Comparisons of every type, with NaN, infinities and zeros of both signs."""
    dtype = w.cycle(*ALL)
    x, y = w.load(dtype, w.pick("edges", "few")), w.load(dtype, w.pick("edges", "few"))
    for operator in ("<", "<=", ">", ">=", "==", "!="):
        w.store(f"{x} {operator} {y}", "bool")
    w.store(f"(({x} < {y}) & ({x} != 1)) | ~({y} >= 0)", "bool")
    w.store(f"({x} > {y}) ^ ({x} <= 2)", "bool")


def float_tree(w: Writer, names: list[str], depth: int) -> str:
    """Write an expression of floats of one type, each operation of which is rounded to it."""
    if depth == 0:
        return w.random.choice([*names, *names, f"{w.random.randint(-8, 8) / 4}"])
    left, right = w.pick(*names), float_tree(w, names, depth - 1)
    if w.random.random() < 0.3:
        name = w.pick(*names)
        return w.pick(
            f"(-{right})",
            f"tl.abs({name})",
            f"tl.where({name} {w.pick('<', '>', '==', '!=')} {left}, {right}, {name})",
        )
    return f"({left} {w.pick('+', '-', '*')} {right})"


def floats(w: Writer) -> None:
    """Sums, differences and products that are not fused, each rounded to its type."""
    dtype = w.cycle(*FLOATS)
    w.options["enable_fp_fusion"] = "False"
    names = [w.load(dtype, w.pick("edges", "wide", "finite")) for _ in range(3)]
    for depth in (1, 2, 3):
        w.store(float_tree(w, names, depth), dtype)


def fused(w: Writer) -> None:
    """Products and sums that the compiler may fuse."""
    x, y, z = (w.load("float32", w.pick("finite", "wide")) for _ in range(3))
    product, last = w.pick((f"{x} * {y}"), f"{y} * {z}"), w.pick(x, z)
    w.store(f"{product} {w.pick('+', '-')} {last}", "float32", "fused")
    w.store(f"tl.abs({product}) + tl.abs({last})", "float32", "scale")


def integer_division(w: Writer) -> None:
    """Quotients toward zero and remainders with the sign of the dividend; by blocks, numbers and arguments."""
    dtype = w.cycle(*INTEGERS)
    x, y = w.load(dtype), w.load(dtype, "nonzero")
    if not dtype.startswith("u"):
        w.line(f"{y} = tl.where({y} == -1, 3, {y})")  # the lowest number has no quotient by -1
    constant = w.pick("2", "3", "7", "16", "100", *([] if dtype.startswith("u") else ["-2", "-5", "-16"]))
    argument = w.parameter("divisor", w.pick("5", "8", "24", "33"))
    argument = f"{argument}.to(tl.{dtype})" if dtype.startswith("u") else argument
    for divisor in (y, constant, argument):
        w.store(f"{x} // {divisor}", dtype)
        w.store(f"{x} % {divisor}", dtype)


def number_divided_by_block(w: Writer) -> None:
    """Numbers and arguments divided by blocks."""
    dtype = w.cycle("int32", "int64", "int16", "int8")
    y = w.load(dtype, "nonzero")
    argument = w.parameter("dividend", w.pick("-100", "99", "17"))
    for dividend in (str(w.random.randint(-90, 90)), argument):
        w.store(f"{dividend} // {y}", dtype)
        w.store(f"{dividend} % {y}", dtype)
    w.store(f"tl.cdiv({argument}, {y})", "int64")


def division_by_zero(w: Writer) -> None:
    """A quotient by zero is no fault; what it is, no language defines."""
    dtype = w.cycle("int32", "uint32", "int64", "uint64", "int16", "uint8")
    x, y = w.load(dtype), w.load(dtype, "below 2")
    w.store(f"{x} // {y}", dtype, "undefined")


def true_division(w: Writer) -> None:
    """`/` of every type."""
    dtype = w.cycle(*ALL)
    x, y = w.load(dtype, "finite"), w.load(dtype, w.pick("positive", "nonzero") if dtype in INTEGERS else "positive")
    wide = "float64" if dtype == "float64" else "float32"
    error = "exact" if dtype == "float64" else "division"
    w.store(f"{x} / {y}", wide, error)
    w.store(f"{x} / {w.random.choice([3, 7, 10])}", wide, error)


def float_remainder(w: Writer) -> None:
    """`%` of floats, which is C's `fmod`: exact."""
    dtype = w.cycle("float32", "float64")
    x, y = w.load(dtype, "wide"), w.load(dtype, "positive")
    w.store(f"{x} % {y}", dtype)
    w.store(f"{x} % 0.75", dtype)


def float_floor_division_is_refused(w: Writer) -> None:
    """`//` of floats, which the language does not have."""
    x, y = w.load("float32", "finite"), w.load("float32", "positive")
    w.store(f"{x} // {y}", "float32")
