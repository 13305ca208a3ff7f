"""A person approves or edits every plan and every kernel before it is followed or judged.

The run pauses after the analyst and before the evaluator, in every stage. Press Enter to approve; answer with the path
of a .py file to put your own kernel in place, or with words to put your own plan in place. Without a terminal all is
approved. Each model answer is paid once, however long the person takes.

    python examples/human_approval.py [reference.py]
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from egg_graph import Context, build_egg_graph, checkpoint_serde

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


def build(**parts: Any) -> Any:
    """The graph, with pauses where a person decides. `parts` are those of `build_egg_graph`."""
    saver = InMemorySaver(serde=checkpoint_serde())
    return build_egg_graph(**parts, checkpointer=saver, interrupt_after=["analyst"], interrupt_before=["evaluator"])


def review(graph: Any, given: dict[str, Any], context: Context, person: Callable[[str], str]) -> dict[str, Any]:
    """Run to the end; at each pause show what was done and take the person's answer."""
    config = {"configurable": {"thread_id": "review"}}
    graph.invoke(given, config, context=context)
    while (snapshot := graph.get_state(config)).next:
        stage, _, step = snapshot.next[0].partition(".")
        edit = decide(stage, step, snapshot.values, person)
        if edit:
            graph.update_state(config, edit)
        graph.invoke(None, config)
    return snapshot.values


def decide(stage: str, step: str, values: dict[str, Any], person: Callable[[str], str]) -> dict[str, Any]:
    """The edit that the person wants; empty where the person approves."""
    if step == "evaluator":
        candidate = values["candidate"] or values["best"]
        answer = person(f"The kernel of {stage}:\n{candidate.source or candidate.problem}\n").strip()
        if not answer:
            return {}
        return {"candidate": candidate.model_copy(update={"source": Path(answer).read_text(encoding="utf-8")})}
    analysis = values["analysis"]
    if analysis is None or not analysis.worth_optimizing:
        return {}
    answer = person(f"The plan of {stage}:\n{analysis.plan}\n").strip()
    return {"analysis": analysis.model_copy(update={"plan": answer})} if answer else {}


def ask(text: str) -> str:
    """Show a text on the terminal and read one line; at the end of the input everything is approved."""
    print(text)
    try:
        return input("Enter approves: ")
    except EOFError:
        print("approved")
        return ""


def main() -> None:
    reference = sys.argv[1] if len(sys.argv) > 1 else SMALL
    context = Context(max_attempts=2, max_configs=3, stages=("algorithmic_structure",))
    state = review(build(), {"reference": reference}, context, ask)
    print(state["verdict"])


if __name__ == "__main__":
    main()
