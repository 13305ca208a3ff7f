"""What building a brief costs: from the state of a run to the prompt that is sent. Run with `make bench`."""

import pytest

from egg_graph import Context
from egg_graph.agents import Prompts
from egg_graph.agents.chat_role import BRIEF_TOKENS
from egg_graph.knowledge import score_principles
from egg_graph.nodes.briefing import Knowledge, analyst_brief, coder_brief, debugger_brief
from egg_graph.nodes.services import Services
from egg_graph.stages import ALGORITHMIC_STRUCTURE
from tests.agents.recorded_run import RecordedEvaluator, run
from tests.lab.briefs import CHAT_ROLES

CONTEXT = Context(target="h200")
TOLD = {"seed": "a right one first", "optimize": "THIS IS THE BEST KERNEL", "repair": "the failure at hand"}
"""What the prompt of each mode holds."""
CASES = [
    ("coder", "seed", 0),
    *((role, "optimize", attempts) for role in ("analyst", "coder") for attempts in (6, 240)),
    *((role, "repair", attempts) for role in ("debugger", "coder") for attempts in (4, 238)),
]
"""Role, mode, and the attempts behind it. Of the recorded run's six the fourth is broken, and the fifth repairs it."""


def state_before(role, mode, attempts):
    """The state in which a role answers, with so many attempts behind it: those of a recorded run again and again."""
    state, _ = run(RecordedEvaluator())
    history = (state["attempts"] * 40)[:attempts]
    numbered = [attempt.model_copy(update={"number": number}) for number, attempt in enumerate(history, start=1)]
    *_, broken, repaired, _ = state["attempts"]
    diagnosis = None if role == "debugger" else repaired.diagnosis
    return {**state, "attempts": numbered, "mode": mode, "analysis": broken.analysis, "diagnosis": diagnosis}


@pytest.mark.parametrize(("role", "mode", "attempts"), CASES)
def test_brief_building(benchmark, role, mode, attempts):
    """From the state of a recorded run to a prompt of each role and mode; its history once, and forty times."""
    state = state_before(role, mode, attempts)
    services, prompts = Services(), Prompts()
    guidance = services.guidance_for(state["baseline"])

    def build():
        if role == "debugger":
            brief = debugger_brief(state, ALGORITHMIC_STRUCTURE, CONTEXT)
        else:
            scores = score_principles(state["attempts"])
            principles = services.match_principles(
                CONTEXT, state["task"], ALGORITHMIC_STRUCTURE.name, state["baseline"], {"launches": 1.0}, scores
            )
            knowledge = Knowledge(principles, scores, guidance)
            brief_of = analyst_brief if role == "analyst" else coder_brief
            brief = brief_of(state, ALGORITHMIC_STRUCTURE, CONTEXT, knowledge)
        system, prompt = CHAT_ROLES[role].compose(prompts, brief, BRIEF_TOKENS)
        return system + prompt.text

    assert TOLD[mode] in benchmark(build)
