"""Embedding, fourth way: egg-graph as an agent among agents, which speaks in messages.

`build_chat_graph()` reads the module from the last message and answers with the verdict and the kernel. A supervisor
(langgraph-supervisor) hands over to it; a deep agent (deepagents) has it as a compiled subagent. With
EGG_MODEL set, that model leads; without it a scripted one stands in.

    pip install langgraph-supervisor deepagents
    python examples/embed_as_agent.py
"""

import os
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from egg_graph import build_chat_graph
from egg_graph.chat_graph import DESCRIPTION

SOFTPLUS = """
import torch
from torch import nn
from torch.nn import functional as F

ROWS = 128
COLUMNS = 500


class Model(nn.Module):
    def forward(self, x):
        return F.softplus(x) * 0.5


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""


class ScriptedLead(BaseChatModel):
    """Stands in for a chat model: delegates what it was asked to the kernel writer, then passes the verdict on."""

    tools: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> BaseChatModel:
        """Know which tools there are."""
        return ScriptedLead(tools=tuple(getattr(tool, "name", "") for tool in tools))

    def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        answer = self._delegate(messages)
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _delegate(self, messages: list[Any]) -> AIMessage:
        asked = next(message.text for message in messages if isinstance(message, HumanMessage))
        said = [m.text for m in messages if isinstance(m, AIMessage | ToolMessage) and "```python" in m.text]
        if said:
            return AIMessage(f"Done. {said[-1].splitlines()[0]}")
        name = "task" if "task" in self.tools else "transfer_to_kernel_writer"
        arguments = {"description": asked, "subagent_type": "kernel_writer"} if name == "task" else {}
        return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "call-1", "type": "tool_call"}])


def leading_model() -> BaseChatModel:
    """The model that decides who works."""
    if os.environ.get("EGG_MODEL"):
        from egg_graph.agents import load_chat_model

        return load_chat_model(os.environ["EGG_MODEL"])
    return ScriptedLead()


def build_supervisor(writer: Any = None) -> Any:
    """A supervisor with one agent. `writer` is the graph to embed; the default needs no key and no GPU."""
    from langgraph_supervisor import create_supervisor

    return create_supervisor([writer or build_chat_graph()], model=leading_model()).compile(name="supervisor")


def build_deep_agent(writer: Any = None) -> Any:
    """A deep agent with one compiled subagent."""
    from deepagents import create_deep_agent

    subagent = {"name": "kernel_writer", "description": DESCRIPTION, "runnable": writer or build_chat_graph()}
    return create_deep_agent(model=leading_model(), subagents=[subagent])


def main() -> None:
    for build in (build_supervisor, build_deep_agent):
        for message in build().invoke({"messages": [HumanMessage(SOFTPLUS)]})["messages"]:
            message.pretty_print()


if __name__ == "__main__":
    main()
