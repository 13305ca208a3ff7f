"""The roles played by chat models: prompt, model, parser; one file for each role (paper, App. E)."""

from egg_graph.agents.handoff import HandoffModel
from egg_graph.agents.models import load_chat_model
from egg_graph.agents.prompts import Prompts
from egg_graph.agents.team import ModelTeam

__all__ = ["HandoffModel", "ModelTeam", "Prompts", "load_chat_model"]
