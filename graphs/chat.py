"""The façade with messages, for chat interfaces: send a module, be answered with verdict and kernel."""

import os

from egg_graph import build_chat_graph

graph = build_chat_graph(os.environ.get("EGG_MODEL") or None)
