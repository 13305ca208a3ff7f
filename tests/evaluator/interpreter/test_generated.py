"""Generated kernels: the same texts everywhere, and the interpreter's answers are those that hardware gave."""

import json
import os
import subprocess
import sys

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
from tests.paths import IMPORTABLE, ROOT

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
        category, _, number = name.rpartition("_")
        (folder / f"{name}.py").write_text(generated(category, int(number)).source)
    done = subprocess.run(
        [sys.executable, "-m", "tests.evaluator.interpreter.generated.answering", "interpreter", folder, *SAMPLE],
        capture_output=True, text=True, timeout=200, cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": IMPORTABLE},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    answers = map(json.loads, done.stdout.splitlines())
    return {answer["name"]: answer for answer in answers if "name" in answer}


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


@recorded_only
def test_the_recording_is_of_these_texts(recording):
    stale = [
        kernel.name for kernel in all_kernels() if recording.get(kernel.name, {}).get("source") != source_digest(kernel)
    ]
    assert stale == [], "record them anew on a GPU"


@recorded_only
@pytest.mark.parametrize("name", SAMPLE)
def test_the_interpreter_answers_as_the_hardware_did(interpreted, recording, name):
    category, _, number = name.rpartition("_")
    here, there = interpreted[name], recording[name]
    assert ("refused" in here) == ("refused" in there), (here.get("refused"), there.get("refused"))
    if "refused" not in here:
        errors = generated(category, int(number)).errors
        outcome, detail = compared(answers_of(here), answers_of(there), errors)
        assert outcome != "different", detail
