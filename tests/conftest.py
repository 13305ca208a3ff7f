"""For all tests: strict checkpoints (the variable must be set before langgraph is imported), and the shared doubles."""

import os
import sys
from pathlib import Path

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"
os.environ.setdefault("LANGSMITH_TRACING", "false")
sys.path.insert(0, str(Path(__file__).parent / "graph"))
