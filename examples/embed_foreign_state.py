"""Embedding, second way: a parent whose state has nothing in common with egg-graph's.

One node translates: it takes what it needs from the parent's state, invokes the inner graph with knobs of its own, and
writes back in the parent's words. Here a tuner of whole models picks the slowest of its modules, one after the other.

    python examples/embed_foreign_state.py
"""

import operator
from typing import Annotated, Any, Literal

from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from egg_graph import Context, build_egg_graph

TEMPLATE = """
import torch
from torch import nn
from torch.nn import functional as F

ROWS = 128
COLUMNS = 500


class Model(nn.Module):
    def forward(self, x):
        return {expression}


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""


class ModelState(TypedDict):
    """The parent's state: hot spots of a model with their share of its time, and a report that grows."""

    hot_spots: dict[str, float]
    sources: dict[str, str]
    report: Annotated[list[str], operator.add]


def build(egg: Any = None) -> Any:
    """The parent graph. `egg` is the graph to embed; the default needs no key and no GPU."""
    inner = egg or build_egg_graph()

    def optimize_hottest(state: ModelState) -> dict[str, Any]:
        """Translate in, run egg-graph, translate out."""
        hottest = max(state["hot_spots"], key=lambda name: state["hot_spots"][name])
        result = inner.invoke(
            {"reference": state["sources"][hottest], "name": hottest},
            context=Context(max_attempts=4, max_configs=3, stages=("algorithmic_structure",)),
        )
        remaining = {name: share for name, share in state["hot_spots"].items() if name != hottest}
        line = f"{hottest} ({state['hot_spots'][hottest]:.0%} of the model): {result['verdict'].splitlines()[0]}"
        return {"hot_spots": remaining, "report": [line]}

    def more(state: ModelState) -> Literal["optimize_hottest", "__end__"]:
        """Until no hot spot is left."""
        return "optimize_hottest" if state["hot_spots"] else END

    builder = StateGraph(ModelState)
    builder.add_node("optimize_hottest", optimize_hottest)
    builder.add_edge(START, "optimize_hottest")
    builder.add_conditional_edges("optimize_hottest", more)
    return builder.compile(name="model_tuner")


def main() -> None:
    sources = {
        "activation": TEMPLATE.format(expression="F.gelu(x) * 0.5 + x"),
        "scores": TEMPLATE.format(expression="torch.softmax(x * 0.125, dim=-1)"),
    }
    result = build().invoke({"hot_spots": {"activation": 0.1, "scores": 0.3}, "sources": sources, "report": []})
    print("\n".join(result["report"]))


if __name__ == "__main__":
    main()
