"""How much the checkpoints of a run weigh, with attempts of a real run's size."""

from tests.bench.weight import MOST_BYTES, in_sqlite, measure


def test_a_run_of_24_attempts_stays_below_3_megabytes_and_grows_by_the_attempt():
    """With a GPU's evaluations, which weigh more than those without one, in LangGraph's own SQLite, uncompressed."""
    half, whole = (measure(in_sqlite, attempts, "gpu") for attempts in (12, 24))
    assert whole.bytes < MOST_BYTES
    assert whole.bytes < 2.2 * half.bytes
