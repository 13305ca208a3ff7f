"""Embedding, third way: egg-graph as a tool that an agent calls.

The agent is a plain LangGraph loop of a model and its tools. With EGG_MODEL set, that model answers;
without it a scripted one stands in, so that the example runs with no key and no network.

    python examples/embed_as_tool.py
"""

import json
import os
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from egg_graph import egg_tool, evaluate_tool

LAYER_NORM = """
import torch
from torch import nn

ROWS = 128
HIDDEN = 768


class Model(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(ROWS, HIDDEN)]


def get_init_inputs():
    return [HIDDEN]
"""


def scripted_model(messages: list[Any]) -> AIMessage:
    """Stands in for a chat model: calls the tool on what it was sent, then passes the verdict on."""
    last = messages[-1]
    if isinstance(last, ToolMessage):
        told = last.text if last.status == "error" else json.loads(last.text)["verdict"]
        return AIMessage(f"Done. {told.splitlines()[0]}")
    call = {"name": "optimize_module", "args": {"reference": last.text}, "id": "call-1", "type": "tool_call"}
    return AIMessage("", tool_calls=[call])


def build(tools: Sequence[BaseTool] = ()) -> Any:
    """The agent. By default its tool is the embedded expert, which needs no key and no GPU."""
    tools = tools or [egg_tool(max_attempts=4, max_configs=3, stages=("algorithmic_structure",)), evaluate_tool()]
    if os.environ.get("EGG_MODEL"):
        from egg_graph.agents import load_chat_model

        answer = load_chat_model(os.environ["EGG_MODEL"]).bind_tools(tools).invoke
    else:
        answer = scripted_model

    def agent(state: MessagesState) -> dict[str, Any]:
        """The model's next word."""
        return {"messages": [answer(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("agent", agent)
    builder.add_node("tools", ToolNode(tools))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", tools_condition)
    builder.add_edge("tools", "agent")
    return builder.compile(name="kernel_agent")


def main() -> None:
    for message in build().invoke({"messages": [HumanMessage(LAYER_NORM)]})["messages"]:
        message.pretty_print()


if __name__ == "__main__":
    main()
