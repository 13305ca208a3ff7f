"""Order, completeness and determinism of a sweep, and its winner."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egg_graph.schema import BadInput, Trial
from egg_graph.tuning import best, configurations, left_out

KNOBS = st.one_of(st.integers(-4, 64), st.booleans(), st.sampled_from(["row", "col"]), st.floats(0, 1))


@st.composite
def spaces(draw):
    names = draw(st.lists(st.sampled_from("abcd"), unique=True, max_size=4))
    config = {name: draw(KNOBS) for name in names}
    turned = [name for name in names if draw(st.booleans())]
    return config, {name: tuple(draw(st.lists(KNOBS, min_size=1, max_size=4))) for name in turned}


def turned(config, other):
    return sum(repr(config[knob]) != repr(other[knob]) for knob in config)


@given(spaces(), st.integers(1, 700))
def test_current_first_then_nearest_without_duplicates(space, limit):
    config, knobs = space
    chosen = configurations(config, knobs, limit)
    assert chosen[0] == config
    distances = [turned(config, other) for other in chosen]
    assert distances == sorted(distances)
    assert len({repr(sorted(other.items())) for other in chosen}) == len(chosen)
    whole = math.prod(len({repr(v) for v in (config[k], *values)}) for k, values in knobs.items())
    assert len(chosen) == min(limit, whole)
    assert all(set(other) == set(config) for other in chosen)
    assert chosen == configurations(config, knobs, limit)


def test_the_favourite_comes_second_unless_a_knob_may_not_take_its_value():
    config, knobs = {"x": 1, "y": 1, "z": 5}, {"x": (1, 2, 4), "y": (1, 2)}
    nearest = configurations(config, knobs, 99)
    favourite = {"x": 4, "y": 2, "z": 9}
    chosen = configurations(config, knobs, 99, favourite)
    assert chosen[:2] == [config, {"x": 4, "y": 2, "z": 5}], "z is not turned, so it keeps its value"
    assert chosen[2:] == [one for one in nearest[1:] if one != chosen[1]]
    assert configurations(config, knobs, 2, favourite) == chosen[:2]
    for useless in ({"x": 8, "y": 2}, {"x": 4}, {"x": True, "y": 2}, config):
        assert configurations(config, knobs, 99, useless) == nearest


def test_a_vast_product_is_never_built():
    config = {f"k{i}": 0 for i in range(40)}
    chosen = configurations(config, {knob: tuple(range(100)) for knob in config}, 5)
    assert [turned(config, other) for other in chosen] == [0, 1, 1, 1, 1]


def test_what_is_left_out_is_named_by_value_or_by_count():
    config, knobs = {"x": 1, "y": 1}, {"x": (1, 2, 4), "y": (1, 2)}
    assert left_out(knobs, configurations(config, knobs, 6)) == ""
    assert left_out(knobs, configurations(config, knobs, 4)) == "2 of 6 configurations left out"
    assert left_out({"x": (1, 2, 4), "y": (1,)}, configurations(config, {"x": (1, 2)}, 6)) == "x 4 left out"


def test_bad_arguments_get_one_line():
    with pytest.raises(BadInput, match="knob 'y' is not in the configuration"):
        configurations({"x": 1}, {"y": (1,)}, 3)
    with pytest.raises(BadInput, match="at least 1"):
        configurations({"x": 1}, {}, 0)


def trial(merit, status="correct", x=0):
    return Trial(config={"x": x}, status=status, merit=merit)


def test_best_is_the_usable_trial_of_least_merit():
    broken = trial((0.0, 0.1), status="incorrect")
    timed, untimed = trial((0.0, 9.0), status="slower"), trial((1.0, 0.1, 0.0))
    assert best([broken, untimed, timed]) is timed
    assert best([broken]) is None
    assert best([]) is None


def test_the_earlier_wins_a_draw():
    assert best([trial((1.0, 2.0), x=1), trial((1.0, 2.0), x=2)]).config == {"x": 1}
