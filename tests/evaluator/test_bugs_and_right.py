"""The corpora themselves, on the ladder without a GPU: bugs are caught, right kernels pass.

The whole of them takes minutes (`egg-graph trust corpus tests/bugs tests/right`, whose results docs/trust.md tells);
here stands one file a problem, chosen so that each kind of finding has one.
"""

import pytest

from egg_graph.bench.trust.corpus import run_corpus
from egg_graph.bench.trust.headers import read_entries
from tests.paths import CORPUS

BUGS, RIGHT = read_entries([CORPUS / "bugs"]), read_entries([CORPUS / "right"])
QUICK_BUGS = (
    *(
        "affine_ignored",
        "epsilon_dropped",
        "tf32_where_ieee",
        "tf32_truncated",
        "bf16_accumulator",
        "odd_rows_reach_out",
    ),
    *(
        "narrow_offsets",
        "output_not_zeroed",
        "running_statistics_forgotten",
        "one_buffer_for_all_calls",
        "stale_transpose",
    ),
    *("attention_without_fading", "integer_sum_wraps", "nan_lost", "written_over_input", "tail_not_covered"),
)
QUICK_RIGHT = (
    *("batch_norm_train", "column_sum_two_kernels", "column_sum_atomics", "matmul_block_pointers", "attention_online"),
    *(
        "add_large_wide_offsets",
        "logsumexp_with_infinities",
        "positive_max_passes_nan_on",
        "matmul_bf16",
        "softmax_autotuned",
    ),
    *("row_max_with_index", "library_product_triton_tail", "integer_sum_wide", "softmax_of_columns_by_transpose"),
)


@pytest.mark.parametrize("name", QUICK_BUGS)
def test_bug(warm, name):
    (row,) = run_corpus([CORPUS / "bugs" / f"{name}.py"], evaluator=warm).rows
    assert row.outcome == "caught", row.worst.reason


@pytest.mark.parametrize("name", QUICK_RIGHT)
def test_right(warm, name):
    (row,) = run_corpus([CORPUS / "right" / f"{name}.py"], evaluator=warm).rows
    assert row.outcome == "right", row.worst.reason


def test_the_corpora_are_as_large_as_the_page_says():
    assert len(BUGS) >= 24
    assert len(RIGHT) >= 20
    assert not any(entry.header.honest for entry in BUGS)
    assert all(entry.header.honest for entry in RIGHT)
