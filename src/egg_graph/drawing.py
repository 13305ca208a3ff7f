"""The graph as a page of Mermaid diagrams, drawn from the code: `python -m egg_graph.drawing > docs/graph.md`."""

from typing import Any

from egg_graph.graph import build_egg_graph

PAGE = """# The graph

This page is drawn from the code by `python -m egg_graph.drawing > docs/graph.md`; a test holds the two together.

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
spent budget leads to `accept`.

```mermaid
{stage}
```
"""


def page() -> str:
    """The page docs/graph.md."""
    graph = build_egg_graph()
    subgraphs = dict(graph.get_subgraphs())
    drawn: dict[str, Any] = {
        "whole": graph,
        "tuning": subgraphs["hardware_tuning"],
        "stage": subgraphs["algorithmic_structure"],
    }
    return PAGE.format(**{name: one.get_graph().draw_mermaid().strip() for name, one in drawn.items()})


if __name__ == "__main__":
    print(page(), end="")
