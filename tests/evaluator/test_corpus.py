"""Every trick and bug is caught and every right kernel passes, as each file's header expects.

The gate reads all files. Only `SAMPLE` climbs a ladder in an ordinary run: every folder has a file in it, and every
kind of finding that needs no GPU one in it or among the faults (tests/evaluator/test_faults.py). `make test-all` climbs
with the rest, which takes long; so does `egg-graph trust corpus tests/corpus/tricks tests/corpus/bugs
tests/corpus/right`, whose results docs/trust.md tells.
"""

import re
from collections.abc import Iterator

import pytest

from egg_graph.bench.trust.corpus import candidate_of, task_of
from egg_graph.bench.trust.headers import Entry, read_entries
from egg_graph.evaluator import LocalEvaluator
from egg_graph.evaluator.gate import check
from egg_graph.schema import Hardware, KernelTask
from tests.paths import CORPUS
from tests.sample import in_sample

ENTRIES = {
    entry.path.relative_to(CORPUS).with_suffix("").as_posix(): entry
    for entry in read_entries([CORPUS / folder for folder in ("tricks", "bugs", "right")])
}
SAMPLE = {
    "tricks/answers": "half_written_kept",
    "tricks/delegation": "autotune_hook custom_operator_hidden logarithm_then_copy library_in_the_kernel",
    "tricks/harness": "half_a_character traceback_walk",
    "tricks/mathematics": "second_configuration",
    "tricks/timing": "fake_verdict_printed",
    "bugs": "every_seventh_dropped epsilon_dropped tf32_where_ieee output_not_zeroed running_statistics_forgotten"
    " one_buffer_for_all_calls integer_sum_wraps transposed_view infinite_lanes_become_nan",
    "right": "helpers batch_norm_train column_sum_atomics matmul_block_pointers attention_online"
    " logsumexp_with_infinities matmul_bf16 configurations_asserted_away",
}
"""By folder, files on softmax for the most part: the first candidate for a problem pays for its shapes.

Left out is what is shown beside it: faults of the same kind (tests/evaluator/test_faults.py), and words of the language
that the interpreter is asked alone (tests/evaluator/interpreter/)."""
BESIDE = {"programs_not_resident"}
"""Kinds of finding that hang on the full shape, and are shown elsewhere (tests/evaluator/aot/test_fits.py)."""
SAMPLED = {f"{folder}/{name}" for folder, names in SAMPLE.items() for name in names.split()}
SMALLER = {
    "softmax": {"ROWS": 64, "COLUMNS": 1536},  # more than a block of the kernels that loop
    "softmax_large": {"ROWS": 64},
    "softmax_square": {"N": 256},
    "batch_norm": {"ROWS": 128, "FEATURES": 64},
    "causal_attention": {"LENGTH": 256},
    "column_sum": {"ROWS": 1024, "COLUMNS": 64},
    "linear_row_norm": {"ROWS": 1024, "INNER": 256, "COLUMNS": 256},
    "matmul": {"M": 128, "K": 250, "N": 192},
    "positive_max": {"ROWS": 64},
    "rows_with_infinity": {"ROWS": 64},
    "row_max": {"ROWS": 64},
}
"""By problem, what is soon interpreted, for the sample without a GPU; its verdicts hang on no size of these."""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if not entry.header.honest])
def test_what_the_gate_refuses_it_refuses_on_the_expected_grounds(name: str) -> None:
    header = ENTRIES[name].header
    findings = check(candidate_of(ENTRIES[name]))
    if findings:
        assert "invalid" in header.expect, findings
        assert not header.finding or {f.kind for f in findings} & set(header.finding), findings


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.header.honest])
def test_the_gate_is_open_for_honest_kernels(name: str) -> None:
    assert check(candidate_of(ENTRIES[name])) == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    in_sample(
        sorted(
            (name for name, entry in ENTRIES.items() if "cpu" in entry.header.where),
            key=lambda name: ENTRIES[name].header.problem,  # the evaluator learns one problem after another
        ),
        SAMPLED,
    ),
)
def test_without_a_gpu(evaluator: LocalEvaluator, h200: Hardware, name: str) -> None:
    entry = ENTRIES[name]
    task = task_of(entry, h200)
    sizes = SMALLER.get(entry.header.problem, {}) if name in SAMPLED else {}
    judged(evaluator, task.model_copy(update={"reference": resized(task.reference, sizes)}), entry)


def resized(reference: str, sizes: dict[str, int]) -> str:
    """The reference with other numbers at the top of its module."""
    for name, size in sizes.items():
        reference, found = re.subn(rf"^{name} = \d+$", f"{name} = {size}", reference, flags=re.MULTILINE)
        assert found == 1, f"the problem has no size {name}"
    return reference


@pytest.fixture(scope="module")
def measuring() -> Iterator[LocalEvaluator]:
    with LocalEvaluator(device="gpu", timeout=30.0) as local:
        yield local


@pytest.mark.gpu
@pytest.mark.parametrize(
    "name",
    in_sample(
        [name for name, entry in ENTRIES.items() if "gpu" in entry.header.where and not name.startswith("bugs/")],
        SAMPLED,
    ),
)
def test_on_a_gpu(measuring: LocalEvaluator, h200: Hardware, name: str) -> None:
    judged(measuring, task_of(ENTRIES[name], h200), ENTRIES[name])


def judged(local: LocalEvaluator, task: KernelTask, entry: Entry) -> None:
    evaluation = local.evaluate(task, candidate_of(entry), finalist=entry.header.finalist)
    outcome = entry.header.outcome(evaluation)
    expected = ("right",) if entry.header.honest else ("caught", "harmless")
    assert outcome in expected, f"{evaluation.status}: {evaluation.reason}"


def test_the_sample_holds_every_folder_and_every_kind_of_finding() -> None:
    assert set(ENTRIES) >= SAMPLED, SAMPLED - set(ENTRIES)
    assert {name.rpartition("/")[0] for name in SAMPLED} == {name.rpartition("/")[0] for name in ENTRIES}
    faults = read_entries([CORPUS / "faults"])  # judged in tests/evaluator/test_faults.py
    here = [entry for entry in (*ENTRIES.values(), *faults) if "cpu" in entry.header.where]
    refused = {f.kind for entry in here for f in check(candidate_of(entry))}
    climbed = [entry for name, entry in ENTRIES.items() if name in SAMPLED] + list(faults)
    covered = BESIDE | refused | {kind for entry in climbed for kind in entry.header.finding}
    rest = [entry for entry in here if entry.header.finding and not covered & set(entry.header.finding)]
    assert rest == [], "a kind of finding that no file of the sample has"
    assert len({entry.header.id for entry in (*ENTRIES.values(), *faults)}) == len(ENTRIES) + len(faults)


def test_bugs_and_tricks_are_wrong_and_right_kernels_right() -> None:
    assert {name.partition("/")[0] for name, entry in ENTRIES.items() if entry.header.honest} == {"right"}
    assert all(entry.header.honest for name, entry in ENTRIES.items() if name.startswith("right/"))
    counts = {folder: sum(name.startswith(folder) for name in ENTRIES) for folder in ("tricks/", "bugs/", "right/")}
    assert counts["tricks/"] >= 221 and counts["bugs/"] >= 82 and counts["right/"] >= 68, "no file gets lost"
