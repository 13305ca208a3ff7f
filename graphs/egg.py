"""The graph that LangGraph Studio and `langgraph dev` serve. EGG_MODEL names a chat model; without it the embedded
expert plays the team, with no key and no network."""

import os

from egg_graph import build_egg_graph, served

graph = served(build_egg_graph(os.environ.get("EGG_MODEL") or None))
