"""The coder: a brief -> one complete module, in seed, optimize or repair mode (paper, App. E.1 and E.4)."""

from typing import Any

from langchain_core.runnables import Runnable

from egg_graph.agents.conversation import converse
from egg_graph.agents.parsing import read_module
from egg_graph.agents.prompts import Prompts
from egg_graph.schema import Brief, Draft


def write(model: Runnable[Any, Any], prompts: Prompts, brief: Brief) -> Draft:
    """Ask for a module, mended where that is plain (see `Draft.note`). Unreadable twice: `Draft.problem` says why."""
    outcome = converse(model, "coder", prompts.system("coder", brief), prompts.coder(brief), read_module)
    if outcome.value is None:
        return Draft(problem=f"no usable module in two answers: {outcome.problem}", usage=outcome.usage)
    return Draft(source=outcome.value.source, note="; ".join(outcome.value.mended), usage=outcome.usage)
