"""Embedding, first way: egg-graph as a node of a graph that shares keys with it.

The parent's state names the keys that it wants from the run (`reference` in; `status`, `verdict` and `kernel` out), and
adds its own. Checkpoints, streams and interrupts of the inner graph travel through the parent.

    python examples/embed_shared_state.py [reference.py]
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from egg_graph import Context, build_egg_graph

SMALL = """
import torch
from torch import nn

ROWS = 256
COLUMNS = 1000


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""


class ReleaseState(TypedDict, total=False):
    """The parent's state: what it shares with egg-graph, and what is its own."""

    reference: str
    status: str
    verdict: str
    kernel: str
    shipped: str


@dataclass(kw_only=True)
class ReleaseContext:
    """The parent's own context; egg-graph finds its knobs in the attribute `egg`."""

    folder: Path
    egg: Context = field(default_factory=Context)


def ship(state: ReleaseState, runtime: Runtime[ReleaseContext]) -> ReleaseState:
    """Keep the accepted kernel where the parent wants it."""
    path = runtime.context.folder / "accepted_kernel.py"
    path.write_text(state["kernel"])
    return {"shipped": str(path)}


def accepted(state: ReleaseState) -> Literal["ship", "__end__"]:
    """Ship what may replace the reference and is not slower."""
    return "ship" if state.get("kernel") and state["status"] != "slower" else END


def build(egg: Any = None) -> Any:
    """The parent graph. `egg` is the graph to embed; the default needs no key and no GPU."""
    builder = StateGraph(ReleaseState, context_schema=ReleaseContext)
    builder.add_node("egg", egg or build_egg_graph())
    builder.add_node("ship", ship)
    builder.add_edge(START, "egg")
    builder.add_conditional_edges("egg", accepted)
    builder.add_edge("ship", END)
    return builder.compile(checkpointer=InMemorySaver(), name="release")


def main() -> None:
    reference = sys.argv[1] if len(sys.argv) > 1 else SMALL
    context = ReleaseContext(folder=Path.cwd(), egg=Context(max_attempts=6, max_configs=4))
    config = {"configurable": {"thread_id": "release-1"}}
    graph = build()
    stream = graph.stream({"reference": reference}, config, context=context, stream_mode="custom", subgraphs=True)
    for _, event in stream:
        print(event["event"], event.get("stage", ""), event.get("status", ""), event.get("reason", "")[:80])
    state = graph.get_state(config).values
    print(state["verdict"])
    print("shipped to", state.get("shipped", "nowhere: the reference is kept"))


if __name__ == "__main__":
    main()
