"""Generated kernels: the same texts everywhere, and the interpreter's answers are those that hardware gave."""

import numpy as np
import pytest

from tests.evaluator.interpreter.generated.catalogue import CATEGORIES, all_kernels, generated
from tests.evaluator.interpreter.generated.comparison import Answer, compared, difference
from tests.evaluator.interpreter.generated.errors import ERRORS
from tests.evaluator.interpreter.generated.recording import (
    RECORDED,
    SAMPLE,
    answers_of,
    read_recording,
    source_digest,
    write_recording,
)
from tests.lab.hardware import answers_of_side, compared_row

recorded_only = pytest.mark.skipif(
    not RECORDED.exists(), reason=f"{RECORDED.name} is not there: python -m tests.lab hardware writes it on a GPU"
)


@pytest.fixture(scope="module")
def recording():
    return read_recording()


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory):
    """The interpreter's answers to the sample, by name."""
    folder = tmp_path_factory.mktemp("generated")
    for name in SAMPLE:
        (folder / f"{name}.py").write_text(named(name).source)
    return answers_of_side("interpreter", list(SAMPLE), folder)


def named(name):
    category, _, number = name.rpartition("_")
    return generated(category, int(number))


def test_there_are_enough_kernels_and_each_output_has_a_documented_class():
    kernels = list(all_kernels())
    assert len({kernel.source for kernel in kernels}) == len(kernels) >= 500
    assert {error for kernel in kernels for error in kernel.errors} == set(ERRORS)
    assert all(bound.source for bound in ERRORS.values())


def test_a_kernel_is_known_by_its_category_and_number():
    assert all(generated(category, 1) == generated(category, 1) for category in CATEGORIES)


def answer(*values, dtype="float32"):
    return Answer(dtype, (len(values),), np.array(values, dtype))


def test_answers_agree_bit_by_bit_or_within_their_class():
    one, next_one = np.float32(1), np.nextafter(np.float32(1), np.float32(2))
    assert compared([answer(one)], [answer(one)], ("exact",)) == ("same bits", "")
    assert compared([answer(one)], [answer(next_one)], ("exact",))[0] == "different"
    assert compared([answer(one)], [answer(next_one)], ("division",)) == ("within error", "")
    assert "-0.0" in difference(answer(0.0), answer(-0.0), "exact", None)
    assert difference(answer(np.inf), answer(3e38), "division", None), "an infinity is within no error"
    assert not difference(answer(1.0), answer(1.000002), "dot", answer(1.0))
    assert difference(answer(1.0), answer(1.000002), "dot", answer(0.001)), "the error is relative to what was summed"


def test_a_recording_reads_back_as_it_was_written(tmp_path):
    written = answer(1.5, np.nan, -0.0)
    write_recording(tmp_path / "answers.json.gz", {"a_000": {"source": "x", "outputs": [written.to_json()]}})
    (read,) = answers_of(read_recording(tmp_path / "answers.json.gz")["a_000"])
    assert read.digest == written.digest


@pytest.mark.parametrize(
    ("here", "there", "outcome"),
    [
        ({"outputs": [answer(1.0).to_json()]}, {"outputs": [answer(1.0).to_json()]}, "same bits"),
        ({"outputs": [answer(1.0).to_json()]}, {"outputs": [answer(2.0).to_json()]}, "different"),
        ({"outputs": [answer(1.0).to_json()]}, {"refused": "line 3"}, "not compiled"),
        ({"refused": "line 3"}, {"outputs": [answer(1.0).to_json()]}, "refused by the interpreter"),
        ({"refused": "line 3"}, {"skipped": "no launch"}, "refused by the interpreter"),
        ({"refused": "line 3"}, {"refused": "line 4"}, "refused by both"),
        ({"outputs": [answer(1.0).to_json()]}, {"lost": "ended with -11"}, "lost"),
        ({"outputs": [answer(1.0).to_json()]}, None, "lost"),
        ({"outputs": [answer(1.0).to_json()]}, {"outputs": []}, "interpreted and compiled"),
    ],
)
def test_a_disagreement_of_the_two_sides_is_named(here, there, outcome):
    row = compared_row(named("hints_000"), here, there, stored=False)
    assert (row.outcome, row.name, row.category) == (outcome, "hints_000", "hints")


def test_a_recording_of_another_text_is_not_compared():
    row = compared_row(named("hints_000"), {"outputs": []}, {"source": "another", "outputs": []}, stored=True)
    assert row.outcome == "stale"


@recorded_only
def test_the_recording_is_of_these_texts(recording):
    stale = [
        kernel.name for kernel in all_kernels() if recording.get(kernel.name, {}).get("source") != source_digest(kernel)
    ]
    assert stale == [], "record them anew on a GPU"


@recorded_only
@pytest.mark.parametrize("name", SAMPLE)
def test_the_interpreter_answers_as_the_hardware_did(interpreted, recording, name):
    row = compared_row(named(name), interpreted[name], recording[name], stored=True)
    assert row.outcome in ("same bits", "within error", "refused by both"), row
