"""How the tests are shared out to xdist's workers: who needs the same evaluator shares a worker, and the longest begin.

An evaluator takes seconds to start and to learn a problem, so a file stays on one worker (`--dist loadgroup`), and so
do the files that use a session's evaluator. Were the longest not first, one worker would end long before the others
(`--no-loadscope-reorder` keeps their order).
"""

from pathlib import Path

import pytest

TOGETHER = {
    "warm": (
        "trust/test_trust_kernels.py",
        "cli/test_cli_evaluate.py",
        "evaluator/test_evaluator_record.py",
        "graph/test_real_evaluator.py",
        "benchmarks/test_overhead.py",
        "trust/test_trust_cli.py",  # the last: it ends every judge that it finds
    ),
    "evaluator": (
        "evaluator/test_evaluator_planted.py",
        "evaluator/test_evaluator_local.py",
        "rightness/test_conduct.py",
        "agents/test_fewshot.py",
    ),
    "interpreted": (
        "gpuless/test_interpreter_fake.py",
        "gpuless/test_interpreter_real.py",
        "gpuless/test_compile_launch.py",
    ),
}
"""By the session's fixture that they share."""
LONG = (
    *TOGETHER["warm"],
    *TOGETHER["evaluator"],
    "playbooks/test_playbook_kernels.py",
    "examples/test_examples_embedding.py",
    "expert/test_expert_cases.py",
    *TOGETHER["interpreted"],
    "evaluator/test_evaluator_faults.py",
    "adversarial/test_adversarial.py",
    "studio/test_server.py",
    "evaluator/test_evaluator_ray.py",
    "expert/test_expert_capture.py",
    "cli/test_cli_end_to_end.py",
    "gpu_answers/test_gpu_ladder.py",
    "playbooks/test_playbook_match.py",
)
"""Files that take half a minute or more, in the order in which they begin."""
PLACES = {f"tests/{file}": place for place, file in enumerate(LONG)}
GROUPS = {f"tests/{file}": group for group, files in TOGETHER.items() for file in files}
assert all((Path(__file__).parent / file).is_file() for file in LONG), "a file that was renamed has lost its place"


def share_out(items: list[pytest.Item]) -> None:
    """Sort tests in place, the longest first and the rest in their order, and say which stay together."""
    for item in items:
        file = item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group(GROUPS.get(file, file)))
    items.sort(key=lambda item: PLACES.get(item.nodeid.partition("::")[0], len(PLACES)))
