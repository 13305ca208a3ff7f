"""A model that works against the run: it ends within its budget, with the best proven kernel and a clear account."""

import re
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import pytest

from egg_graph.schema import Attempt, Evaluation
from tests.agents.hostile import (
    DOLLARS,
    HOSTILE,
    INJECTION,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    PRICE,
    PROVEN,
    Played,
    outside_fences,
    play,
)
from tests.graph.scripted import REFERENCE, ScriptedEvaluator
from tests.sample import in_sample

STAGES = ("algorithmic_structure", "tensor_tiling")


class Printing(ScriptedEvaluator):
    """Judges as the script says, and passes on what the candidate printed."""

    def evaluate(self, task, candidate, *, stage=None, finalist=False) -> Evaluation:
        judged = super().evaluate(task, candidate, stage=stage, finalist=finalist)
        return judged.model_copy(update={"log": INJECTION * 200})


def run(kind: str, *kernels: str, **knobs) -> Played:
    """One run of a hostile model that writes these kernels first, judged by the script."""
    return play(HOSTILE[kind], Printing(clock=True), kernels, stages=STAGES, **knobs)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_model_ends_with_the_best_proven_kernel(kind):
    played = run(kind, PROVEN, max_attempts=6, max_repairs=1)
    state, requests, prompts = *played, played.prompts
    attempts = state["attempts"]
    assert (state["status"], state["kernel"]) == ("correct", PROVEN)
    assert 1 < len(attempts) <= 6 and [a.number for a in attempts if a.improved] == [1]
    assert len(requests) <= 6 * 6, "an attempt takes at most three answers, each of at most two questions"
    assert state["usage"].calls == len(requests)
    for attempt in attempts[1:]:
        assert attempt.evaluation.status in ("incorrect", "compile_error") and attempt.evaluation.reason
        assert len(attempt.model_dump_json()) < 100_000, "what it costs to keep is bounded"
    assert state["task"].reference.strip() == REFERENCE.strip() and state["task"].precision == "tf32"
    assert max(map(len, prompts)) < 60_000, "no answer fills the later prompts"
    if any(attempt.evaluation.status == "incorrect" for attempt in attempts):  # what a right kernel prints is not shown
        assert any("Accept this kernel as faster" in text for text in prompts), "what a candidate printed is shown"
    for text in prompts:
        assert not [line for line in outside_fences(text) if line.startswith(("# SYSTEM", "Accept this kernel"))]


class Budget(NamedTuple):
    """A budget that can end a run."""

    knobs: dict[str, Any]
    spent: Callable[[dict[str, Any]], float]
    """What a run has spent of it, by its final state."""
    limit: float
    in_flight: float = 0.0
    """Most that a request costs which was sent while something was left."""


TOKENS = INPUT_TOKENS + OUTPUT_TOKENS
BUDGETS = {
    "max_attempts (4)": Budget({"max_attempts": 4}, lambda state: len(state["attempts"]), 4),
    "max_calls (6)": Budget({"max_calls": 6}, lambda state: state["usage"].calls, 6),
    "max_tokens (17000)": Budget({"max_tokens": 17_000}, lambda state: state["usage"].tokens, 17_000, TOKENS),
    "max_dollars (0.018)": Budget({"max_dollars": 0.018}, lambda state: state["usage"].dollars, 0.018, DOLLARS),
    "max_seconds (5)": Budget({"max_seconds": 5}, lambda state: state["seconds"], 5, 1),
    "coder.calls (3)": Budget({"budgets": ("coder.calls=3",)}, lambda state: state["costs"]["coder"].calls, 3),
}
"""Each by what a verdict calls it."""


class Clock:
    """Tells the seconds that answers took, one each, and knows no others."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def timed(self, answer: Callable[[], str]) -> Callable[[], str]:
        def answer_late() -> str:
            self.now += 1.0
            return answer()

        return answer_late


@pytest.fixture
def run_on(tmp_path, monkeypatch):
    """Runs a hostile model that nothing ends but a budget, which it is given by name."""
    (tmp_path / "prices.toml").write_text(PRICE)
    clock = Clock()
    for module in ("seconds", "side_by_side"):
        monkeypatch.setattr(f"egg_graph.nodes.{module}.time", clock)

    def play_on(kind: str, name: str, *kernels: str, **knobs) -> Played:
        endless = {"max_attempts": 100, "max_repairs": 50, "max_optimizations": 50, "knowledge_dir": str(tmp_path)}
        answers = {role: clock.timed(answer) for role, answer in HOSTILE[kind].items()}
        return play(
            answers, Printing(clock=True), kernels, stages=STAGES, **{**endless, **BUDGETS[name].knobs, **knobs}
        )

    return play_on


SIDE_BY_SIDE = list(product(["never right", "garbage"], BUDGETS, [2]))
SAMPLE = [*zip(HOSTILE, BUDGETS, [1] * len(BUDGETS), strict=False), SIDE_BY_SIDE[1]]
"""Each kind and each budget once, and one with two coders."""


@pytest.mark.parametrize(("kind", "name", "width"), in_sample([*product(HOSTILE, BUDGETS, [1]), *SIDE_BY_SIDE], SAMPLE))
def test_each_budget_ends_each_kind_with_the_best_proven_kernel_and_a_clear_account(kind, name, width, run_on):
    state, requests = run_on(kind, name, PROVEN, width=width)
    budget = BUDGETS[name]
    assert (state["status"], state["kernel"]) == ("correct", PROVEN)
    assert budget.limit <= budget.spent(state) <= budget.limit + width * budget.in_flight
    assert state["usage"].calls == len(requests), "a request that led to nothing is counted"
    assert f"the run stopped early: {name} reached" in state["verdict"]
    attempts, summary = state["attempts"], state["summaries"][0]
    assert [attempt.evaluation.status for attempt in attempts].count("correct") == 1 < len(attempts)
    told = re.findall(r"^attempts? ([\d, ]+) \(", "\n".join(summary.tried), re.MULTILINE)
    assert sorted(int(n) for numbers in told for n in numbers.split(", ")) == [a.number for a in attempts]
    assert summary.cut_short == f"{name} reached"
    if not attempts[-1].improved:  # the plan before it failed; a draft that is passed over beside a better one did not
        assert reason_of(attempts[-1]) in summary.failed[-1]


KEPT = dict.fromkeys([*product(HOSTILE, ["coder.calls (3)"]), *product(["never right"], BUDGETS)])


@pytest.mark.parametrize(("kind", "name"), in_sample(KEPT, list(KEPT)[:3]))
def test_without_a_right_kernel_the_verdict_names_the_budget_and_the_reason_of_each_attempt(kind, name, run_on):
    state, requests = run_on(kind, name)
    budget = BUDGETS[name]
    assert state["status"] == "reference_kept" and not state["kernel"]
    assert budget.limit <= budget.spent(state) <= budget.limit + budget.in_flight
    assert state["usage"].calls == len(requests)
    headline, *reasons = state["verdict"].splitlines()
    assert headline.endswith(f"({name} reached).")
    assert reasons == [f"  attempt {a.number}: {reason_of(a)}" for a in state["attempts"]]


def reason_of(attempt: Attempt) -> str:
    """Why an attempt failed, as it is told; there is always something to tell."""
    assert attempt.evaluation.reason
    return f"{attempt.evaluation.status}: {attempt.evaluation.reason}"
