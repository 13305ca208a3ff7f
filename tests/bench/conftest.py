"""What the results file keeps: statistics and the machine's kind, not its name nor every single round."""

from typing import Any


def pytest_benchmark_update_json(config: Any, benchmarks: Any, output_json: dict[str, Any]) -> None:
    output_json["machine_info"].pop("node", None)
    for benchmark in output_json["benchmarks"]:
        benchmark["stats"].pop("data", None)
