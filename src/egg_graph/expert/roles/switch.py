"""A change of structure: the sentence that the analyst writes into its plan and the coder reads back."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from egg_graph.expert.playbooks.playbook import LIBRARY, Alternative
from egg_graph.expert.playbooks.registry import playbook_names, playbooks_by_name


@dataclass(frozen=True)
class Switch:
    """One alternative for all groups of a playbook that have the same structure now: they win or lose together."""

    groups: tuple[str, ...]
    now: str
    """The present variant; empty where the playbook chose."""
    to: Alternative

    def sentence(self) -> str:
        """Write the plan, in the form that `read_switch` parses."""
        now = self.now or "the first structure"
        return f"Switch {', '.join(self.groups)} from {now} to {self.to.variant}: {self.to.reason}."


def switches(groups: Mapping[str, str]) -> Iterator[Switch]:
    """Yield the structures that a module does not have yet, in the order in which to try them.

    Args:
        groups: The module's plan: variant by group name.
    """
    owner = playbook_names(groups)
    alike: dict[tuple[str, str], list[str]] = {}
    for group, variant in groups.items():
        alike.setdefault((owner[group], variant), []).append(group)
    for name, playbook in playbooks_by_name().items():
        for (playbook_name, now), names in alike.items():
            if playbook_name != name:
                continue
            for to in playbook.alternatives:
                if to.variant != now and (to.variant == LIBRARY or to.variant in playbook.variants):
                    yield Switch(tuple(names), now, to)


def read_switch(plan: str) -> tuple[tuple[str, ...], str] | None:
    """Parse the groups and the variant that a plan names; None where the plan is not the embedded analyst's."""
    found = re.search(r"Switch ([\w, ]+) from .*? to (\w+):", plan)
    return (tuple(found[1].split(", ")), found[2]) if found else None
