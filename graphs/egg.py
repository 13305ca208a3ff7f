"""The graph that LangGraph Studio and `langgraph dev` serve. EGG_MODEL names a chat model, or one for each role
(`openai:gpt-5, coder=anthropic:claude-opus-4-1`); without it the embedded expert plays the team, with no key and no
network."""

import os

from egg_graph import build_egg_graph, served
from egg_graph.team import read_models

graph = served(build_egg_graph(read_models([], os.environ.get("EGG_MODEL"))))
