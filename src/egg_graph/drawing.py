"""The page about the graph, drawn from the code: `python -m egg_graph.drawing > docs/graph.md`."""

from dataclasses import fields
from typing import Any

from egg_graph.context import Context
from egg_graph.graph import build_egg_graph
from egg_graph.nodes import events

PAGE = """# The graph

This page is drawn from the code by `python -m egg_graph.drawing > docs/graph.md`; a test compares the two.

## The whole

Two hierarchical stages, each a subgraph.

```mermaid
{whole}
```

## Hardware tuning

The second stage has three parts, in this order.

```mermaid
{tuning}
```

## One stage

`algorithmic_structure` and each part of `hardware_tuning` are the same subgraph, with another objective, another system
prompt, other metrics and other knobs. After the evaluator a run goes on to `repair`, to `optimize` or to `accept`; a
spent budget leads to `accept`. From the analyst a plan that changes the source goes to the coder (`rewrite`), one that
only turns knobs to the tuner (`sweep`), and so does a kernel that no plan would improve (`accept`).

```mermaid
{stage}
```

## The knobs of a run

Fields of `egg_graph.Context`: pass `context=Context(...)` to invoke or stream, name them in `optimize(...)`, or set
them in LangGraph Studio.

{knobs}

## The events of a run

`graph.stream(..., stream_mode="custom", subgraphs=True)` and `optimize(..., on_event=...)` report a run as it goes, in
small dicts.

{events}
"""


def page() -> str:
    """Text of the page docs/graph.md."""
    graph = build_egg_graph()
    subgraphs = dict(graph.get_subgraphs())
    drawn: dict[str, Any] = {
        "whole": graph,
        "tuning": subgraphs["hardware_tuning"],
        "stage": subgraphs["algorithmic_structure"],
    }
    diagrams = {name: one.get_graph().draw_mermaid().strip() for name, one in drawn.items()}
    return PAGE.format(**diagrams, knobs=knobs(), events=(events.__doc__ or "").partition("\n\n")[2].strip())


def knobs() -> str:
    """A table of the context's fields: name, default, description."""
    rows = [f"| `{f.name}` | `{f.default!r}` | {f.metadata['description']} |" for f in fields(Context)]
    return "\n".join(["| knob | default | is |", "| --- | --- | --- |", *rows])


if __name__ == "__main__":
    print(page(), end="")
