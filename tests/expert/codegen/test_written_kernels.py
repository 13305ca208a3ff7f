"""Each playbook's kernels, proven right in the interpreter at two small shapes, against the reference in fp64.

An ordinary run takes one reference of each playbook.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.expert.references import CASES
from tests.paths import CHILD_SECONDS, UNCOLLECTED
from tests.sample import first_of_each, in_sample, selected

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
SAMPLE = first_of_each(CASES, lambda name: CASES[name].playbooks[0], lambda name: CASES[name].wrappers)


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest) -> dict:
    """All cases in one child process: the interpreter is chosen before triton is imported."""
    names = [name for (name,) in selected(request, "name")]
    done = subprocess.run(
        [*UNCOLLECTED, HERE / "driver.py", *names], capture_output=True, text=True, timeout=CHILD_SECONDS, cwd=HERE,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", in_sample(CASES, SAMPLE))
def test_kernel_is_right_at_every_captured_shape(answers, name):
    answer = answers[name]
    assert "problem" not in answer, answer["problem"]
    assert answer["shapes"] >= 3, "a case that varies no size proves nothing about sizes"
    assert max(answer["errors"]) < CASES[name].budget


@pytest.mark.parametrize("name", in_sample(CASES, SAMPLE))
def test_plan_fuses_what_belongs_together(answers, name):
    assert tuple(answers[name]["playbooks"]) == CASES[name].playbooks
    assert tuple(answers[name]["left"]) == CASES[name].left


@pytest.mark.parametrize("name", in_sample([name for name, case in CASES.items() if case.wrappers], SAMPLE))
def test_layers_that_are_written_alike_share_one_function(answers, name):
    assert answers[name]["wrappers"] == CASES[name].wrappers < len(CASES[name].playbooks)
