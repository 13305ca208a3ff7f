"""Numbers of several captures as expressions over sizes."""

import pytest

from egg_graph.expert.codegen.sizes import Scope


@pytest.fixture
def scope() -> Scope:
    scope = Scope()
    scope.add_tensor("x", ((64, 128, 56), (3, 19, 37), (5, 21, 11)))
    scope.add_tensor("w", ((512,), (76,), (84,)))
    scope.add("self.heads", (8, 8, 8))
    return scope


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((7, 7, 7), "7"),
        ((128, 19, 21), "x.shape[1]"),
        ((64 * 128 * 56, 3 * 19 * 37, 5 * 21 * 11), "x.numel()"),
        ((128 * 56, 19 * 37, 21 * 11), "(x.shape[1] * x.shape[2])"),
        ((512, 76, 84), "w.shape[0]"),
        ((256, 38, 42), "(x.shape[1] * 2)"),
        ((54, 35, 9), "(x.shape[2] - 2)"),
        ((4, 23, 49), "(60 - x.shape[2])"),
    ],
)
def test_finds_the_simplest_expression(scope, values, text):
    assert scope.express(values) == text


def test_a_constant_over_a_known_number():
    scope = Scope()
    scope.add("self.stride", (4, 1, 2))
    assert scope.express((3, 12, 6)) == "(12 // self.stride)"


def test_the_expression_gives_the_values(scope):
    """Whatever spelling is found: evaluated at each capture's sizes, it gives that capture's number."""
    shapes = {"x": [(64, 128, 56), (3, 19, 37), (5, 21, 11)], "w": [(512,), (76,), (84,)]}
    for values in [(64 * 56, 3 * 37, 5 * 11), (4, 4, 4), (64 * 512, 228, 420), (16, 16, 16), (66, 5, 7)]:
        text = scope.express(values)
        for capture, value in enumerate(values):
            tensors = {n: type("T", (), {"shape": s[capture]}) for n, s in shapes.items()}
            assert eval(text, tensors) == value


def test_what_follows_from_no_size_is_not_guessed(scope):
    assert scope.express((101, 13, 999)) is None
    assert scope.express_float((0.1, 0.77, 0.3)) is None


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((1 / 128, 1 / 19, 1 / 21), "(1.0 / x.shape[1])"),
        ((56**-0.5, 37**-0.5, 11**-0.5), "(x.shape[2] ** -0.5)"),
        ((0.25, 0.25, 0.25), "0.25"),
    ],
)
def test_floats_that_stand_for_sizes(scope, values, text):
    assert scope.express_float(values) == text


def test_the_correction_of_a_variance_is_known_of_millions_of_elements():
    scope = Scope()
    counts = (204801, 3071875, 7168200)
    scope.add("x.numel()", counts)
    assert scope.express_float(n / (n - 1) for n in counts) == "(x.numel() / max(x.numel() - 1, 1))"


def test_a_product_that_is_the_same_everywhere_stands_in_no_expression():
    scope = Scope()
    scope.add_tensor("mask", ((1, 1, 1024), (1, 1, 5120), (1, 1, 7168)))
    scope.add_tensor("x", ((512, 768), (1024, 5376), (1536, 8448)))
    scope.add("heads", (8, 4, 4))
    assert scope.express((96, 1344, 2112)) == "(x.shape[1] // heads)"


def test_a_convolutions_output_follows_from_input_and_filter():
    """Rows - 1 + taps - 2 of padding; three captures would fit too many sums."""
    scope, fewer = Scope(), Scope()
    rows, taps, channels = (32, 16, 13, 224), (3, 2, 3, 3), (64, 16, 11, 128)
    for which, captures in ((scope, 4), (fewer, 3)):
        for name, values in (("channels", channels), ("rows", rows), ("taps", taps)):
            which.add(name, values[:captures])
    outputs = tuple(r + t - 3 for r, t in zip(rows, taps, strict=True))
    assert scope.express(outputs) == "(rows + taps - 3)"
    assert fewer.express(outputs[:3]) is None
    assert fewer.express(2 * r + 1 for r in rows[:3]) == "(rows * 2 + 1)"
