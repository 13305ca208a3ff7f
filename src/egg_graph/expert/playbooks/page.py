"""The page docs/playbooks.md: `python -m egg_graph.expert.playbooks.page > docs/playbooks.md`."""

from textwrap import fill

from egg_graph.expert.playbooks.playbook import LIBRARY, Playbook
from egg_graph.expert.playbooks.registry import PLAYBOOKS

PAGE = """# Playbooks

A playbook is what the embedded expert knows about one kind of operator group: what it matches, the Triton that it
writes, the structures to try and the knobs that each stage may turn. The analyst and the coder of a model-driven team
read its guidance in their prompts, wherever its operators occur in the reference.

Before the playbooks look, an average or a sum over the output features of a linear layer is folded into the layer,
where every step between is linear; a mean over spatial dimensions into the convolution before it, which then reads sums
of its input; and an average pooling behind a convolution into its filter, where every step between does the same at all
places of a channel and fewer products are left; an average of averages becomes one; an average over all pixels goes
through a group norm, of which the channels' moments are left. The modules' docstrings hold the proofs. Where a GPU
times the kernel, a playbook may expect the library to be faster at a group's anchor, from measurements of others like
it: the first kernel then leaves the anchor to PyTorch and writes the tail. If nothing would be left to write, our own
kernel is written once.

Over a whole network: layers that are written alike share their functions, so that each is compiled and tuned once. What
is packed from a weight is kept until the weight changes. Running statistics are updated where they are computed. A
convolution that reads its channels innermost gets them so from the elementwise work ahead of it, and a concatenation of
channels is written by the convolutions that make its parts.

A structure that was measured against the others on a GPU like the target (`measured`; so far a survey of KernelBench's
levels 1 and 2 on an H200, fp32) is not tried in another one. Where nobody measured, and the kernel's time is beyond its
bound, the analyst proposes the first of the structures to try, and after it no other; if that comes out wrong, it is
repaired only where it keeps its structure.

This page is written from the playbooks, in their order of precedence (`make docs`).

{playbooks}

## A playbook of your own

Subclass `Playbook` in a file of its own. One line adds it, for the embedded expert and for prompts alike:

```python
from egg_graph.expert import Playbook, add_playbook
```

`add_playbook(MyPlaybook())` gives it the first turn, `add_playbook(MyPlaybook(), before="row")` the turn before the row
playbook. A playbook that ships is one line of `PLAYBOOKS` in `expert/playbooks/registry.py`. The shortest one to start
from is `expert/playbooks/pointwise.py`.
"""
FEW = 24
"""The most operators that a section lists."""


def page() -> str:
    """Return the text of docs/playbooks.md."""
    return PAGE.format(playbooks="\n\n".join(_section(playbook) for playbook in PLAYBOOKS))


def _section(playbook: Playbook) -> str:
    names = sorted(playbook.operators)
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    parts = [f"## {playbook.name}", _wrapped(playbook.__doc__ or ""), _wrapped(playbook.guidance)]
    parts.append(_wrapped(f"Operators: {', '.join(f'`{name}`' for name in names[:FEW])}{more}."))
    if len(playbook.variants) > 1:
        variants = ", ".join(f"`{v}`" for v in playbook.variants)
        parts.append(_wrapped(f"Structures: {variants}."))
    if playbook.alternatives:
        rows = [
            f"| `{a.variant}` | {a.reason} | {', '.join(f'`{p}`' for p in a.principles) or 'none'} |"
            for a in playbook.alternatives
        ]
        parts.append("\n".join(["| to try | because | principles |", "| --- | --- | --- |", *rows]))
    if any(a.variant == LIBRARY for a in playbook.alternatives):
        parts.append(f"`{LIBRARY}` leaves the operator to PyTorch and its tail to another playbook.")
    return "\n\n".join(parts)


def _wrapped(text: str) -> str:
    return fill(text, 120, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    print(page(), end="")
