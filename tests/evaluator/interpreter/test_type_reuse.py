"""Types, tensors and conversions of the language are what Triton makes of them, worked out once or each time."""

from tests.evaluator.conftest import in_process
from tests.sample import thorough


@thorough
def test_what_is_reused_is_what_triton_makes() -> None:
    told = in_process("interpreter/types_driver.py", None, TRITON_INTERPRET="1")
    assert told["count"] > 5_000
    assert told["same"] == [True, True]
    assert len(set(told["own"])) == 1 and "7" not in told["own"][0], "no tensor's shape is another one's"
