"""What building a brief costs: from the state of a run to the prompt that is sent. Run with `make bench`."""

import pytest

from egg_graph import Context
from egg_graph.agents import Prompts
from egg_graph.agents.analyst import ANALYST
from egg_graph.agents.chat_role import BRIEF_TOKENS
from egg_graph.knowledge import score_principles
from egg_graph.nodes.briefing import Knowledge, analyst_brief
from egg_graph.nodes.services import Services
from egg_graph.stages import ALGORITHMIC_STRUCTURE
from tests.agents.recorded_run import RecordedEvaluator, run

CONTEXT = Context(target="h200")


@pytest.mark.parametrize("attempts", [6, 240])
def test_brief_building(benchmark, attempts):
    """From the state of a recorded run to the analyst's prompt; its history once, and forty times."""
    state, _ = run(RecordedEvaluator())
    history = [a.model_copy(update={"number": n}) for n, a in enumerate(state["attempts"] * (attempts // 6), start=1)]
    services, prompts = Services(), Prompts()
    guidance = services.guidance_for(state["baseline"])

    def build():
        scores = score_principles(history)
        principles = services.match_principles(
            CONTEXT, state["task"], "algorithmic_structure", state["baseline"], {"launches": 1.0}, scores
        )
        parts = {**state, "attempts": history}
        brief = analyst_brief(parts, ALGORITHMIC_STRUCTURE, CONTEXT, Knowledge(principles, scores, guidance))
        system, prompt = ANALYST.compose(prompts, brief, BRIEF_TOKENS)
        return system + prompt.text

    assert "THIS IS THE BEST KERNEL" in benchmark(build)
