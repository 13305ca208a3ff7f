"""A façade with messages: chat interfaces, supervisors and deep agents talk to it as to any agent.

START → read ─┬→ optimize → END
              └→ END          where the last message holds no module
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer
from typing_extensions import TypedDict

from egg_graph.context import Context
from egg_graph.evaluator.protocol import Evaluator
from egg_graph.graph import build_egg_graph
from egg_graph.schema import EggError
from egg_graph.state import InputState
from egg_graph.team import Team
from egg_graph.tools.results import run_result

DESCRIPTION = (
    "Replaces PyTorch modules by proven Triton kernels. Send the module's source in a fenced block of Python: class "
    "Model(torch.nn.Module), get_inputs() and, if Model takes arguments, get_init_inputs()."
)
"""What the agent does, for those who choose among agents."""

_FENCED = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_MODULE = re.compile(r"^class\s+Model\b", re.MULTILINE)
_PATH = re.compile(r"[^\s`'\"]+\.py")


class ChatInput(TypedDict):
    """A conversation. The last message of a person or an agent holds the module."""

    messages: Annotated[list[AnyMessage], add_messages]


class ChatState(ChatInput, total=False):
    """The conversation, and the module that was found in it."""

    reference: str


def find_module(text: str) -> str:
    """Find the module in a message: a fenced block or the whole text with `class Model`, else the path of a .py file.

    Returns:
        Source text or path; empty where there is none.
    """
    for block in [*_FENCED.findall(text), text]:
        if _MODULE.search(block):
            return block.strip() + "\n"
    path = _PATH.search(text)
    return "" if path is None else path.group()


@dataclass
class ChatNodes:
    """The two nodes of the façade."""

    egg: CompiledStateGraph[Any, Any, Any, Any]
    name: str

    def read(self, state: ChatState) -> dict[str, Any]:
        """Find the module in the last message that a person or an agent sent; say what is missing if there is none."""
        asked = [message for message in state.get("messages", []) if isinstance(message, HumanMessage)]
        reference = find_module(asked[-1].text) if asked else ""
        if reference:
            return {"reference": reference}
        return {"reference": "", **self._say(f"There is no module in the last message. {DESCRIPTION}")}

    def optimize(self, state: ChatState, config: RunnableConfig) -> dict[str, Any]:
        """Run egg-graph on the module, and answer with verdict and kernel."""
        try:
            return self._answer(self.egg.invoke(self._input(state), config))
        except EggError as error:
            return self._say(str(error))

    async def optimize_async(self, state: ChatState, config: RunnableConfig) -> dict[str, Any]:
        """As `optimize`, for asynchronous callers."""
        try:
            return self._answer(await self.egg.ainvoke(self._input(state), config))
        except EggError as error:
            return self._say(str(error))

    def _input(self, state: ChatState) -> InputState:
        return InputState(reference=state["reference"])

    def _answer(self, end: dict[str, Any]) -> dict[str, Any]:
        result = run_result(end)
        kernel = f"\n\n```python\n{result['kernel'].rstrip()}\n```" if result["kernel"] else ""
        return self._say(f"{result['verdict']}{kernel}")

    def _say(self, text: str) -> dict[str, Any]:
        return {"messages": [AIMessage(text, name=self.name)]}


def build_chat_graph(
    model: Any = None,
    *,
    team: Team | None = None,
    evaluator: Evaluator | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    name: str = "kernel_writer",
) -> CompiledStateGraph[ChatState, Context, ChatInput, ChatInput]:
    """Build a graph whose input and output are `messages`, around the graph of `build_egg_graph`.

    A message with a module is answered with the verdict and the kernel; one without, with what is missing; a run that
    egg-graph refuses, with its one line. The knobs are those of `Context`; interrupts and streams of the inner graph
    reach the caller.

    Args:
        model, team, evaluator: see `egg_graph_builder`.
        checkpointer, store, name: passed to `StateGraph.compile`. Answers carry the name.

    Raises:
        BadInput: if `model` can never become a team.
    """

    def after_read(state: ChatState) -> Literal["optimize", "__end__"]:
        return "optimize" if state["reference"] else "__end__"

    nodes = ChatNodes(build_egg_graph(model, team=team, evaluator=evaluator), name)
    builder = StateGraph(ChatState, context_schema=Context, input_schema=ChatInput, output_schema=ChatInput)
    builder.add_node("read", nodes.read)
    builder.add_node("optimize", RunnableLambda(nodes.optimize, nodes.optimize_async))
    builder.add_edge(START, "read")
    builder.add_conditional_edges("read", after_read)
    builder.add_edge("optimize", END)
    return builder.compile(checkpointer=checkpointer, store=store, name=name)
