"""What a worker is worth behind a forward whose kernels did nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.gpu import integrity
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.worker import gpu_worker
from egg_graph.schema import Integrity
from tests.evaluator.gpu.stand_ins import InProcess


def test_a_gpu_that_asserts_behind_kernels_that_did_nothing_is_no_fault_of_the_candidate(
    problem: Problem, session_of: Callable[[str], InProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indices that no kernel wrote: PyTorch's assertion ends all that the process could do on the GPU."""
    session = session_of("return torch.relu(self.linear(x))")
    ask, dead = session.ask, []

    def silenced(forward: Any) -> Any:
        dead.append(True)
        raise RuntimeError("device-side assert triggered")

    def ask_the_gpu(do: str, **arguments: Any) -> dict[str, Any]:
        assert not dead, f"{do}: a process whose GPU has asserted was asked"
        return ask(do, **arguments)

    watched = Integrity(kernels=("k",))
    monkeypatch.setattr(session, "ask", ask_the_gpu)
    monkeypatch.setattr(gpu_worker.recorder, "silence_kernels", silenced)
    monkeypatch.setattr(gpu_worker.recorder, "record_forward", lambda forward, given: {})
    monkeypatch.setattr(integrity, "judge_watch", lambda *rest, **more: (watched, []))
    monkeypatch.setattr(integrity, "judge_fingerprints", lambda before, after: [])
    builder = EvaluationBuilder()
    with next(iter(problem.full_cases())).held() as case:
        assert integrity.examine(session, problem, case, "stand-in", builder)  # type: ignore[arg-type]
    assert builder.integrity is not None and builder.integrity.causal
    assert dead and not session.alive
