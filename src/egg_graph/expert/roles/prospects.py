"""What other structures of a kernel can come to: which can be written, and where measurements speak against them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from egg_graph.expert.codegen.group import Group
from egg_graph.expert.playbooks.convolution.layout import graph_of
from egg_graph.expert.playbooks.planner import drop_some, expectations, make_plan
from egg_graph.expert.playbooks.playbook import LIBRARY, Expected
from egg_graph.expert.playbooks.registry import playbook_names, playbooks, playbooks_by_name
from egg_graph.expert.roles.switch import Switch
from egg_graph.schema import KernelTask


@dataclass(frozen=True)
class Prospects:
    """What is known about the groups of one kernel. Each answer is found when it is first asked for."""

    task: KernelTask
    groups: Mapping[str, str]
    """The kernel's plan: structure by group."""
    dropped: tuple[str, ...]
    """The groups whose anchors it leaves to PyTorch."""
    timed: bool
    """Whether kernels are timed. Otherwise nothing is expected, and no measurement stands for one of this run."""

    @cached_property
    def planned(self) -> dict[str, Group]:
        """The groups, each in the structure that its playbook matched it with."""
        return dict(make_plan(graph_of(self.task), playbooks(), None, self.dropped).groups)

    @cached_property
    def expected(self) -> dict[str, Expected]:
        """The times to expect, by group; under `triton_only` there is no library to lose against."""
        if not self.timed or self.task.triton_only:
            return {}
        task = self.task
        return expectations(graph_of(task), self.planned, playbooks(), task.precision, task.target)

    @property
    def hopeless(self) -> dict[str, Expected]:
        """The groups that the library is expected to beat in any structure of ours, with these times."""
        return {name: expected for name, expected in self.expected.items() if expected.hopeless}

    @cached_property
    def settled(self) -> dict[str, str]:
        """Where the present structure was measured against others of ours, by group."""
        if not self.timed:
            return {}
        graph, task, known, found = graph_of(self.task), self.task, playbooks_by_name(), {}
        for name, group in self.planned.items():
            playbook = known[group.playbook]
            preferred = playbook.preferred_variant(graph, group, task.precision, task.target)
            where = playbook.measured(graph, group, task.precision, task.target)
            if where and self.groups.get(name) == preferred:
                found[name] = where
        return found

    @cached_property
    def structures(self) -> dict[str, tuple[str, ...]]:
        """The structures that can be written and run at the task's own shape, by group."""
        graph, known = graph_of(self.task), playbooks_by_name()
        return {
            name: known[group.playbook].structures(graph, group, self.task.target)
            for name, group in self.planned.items()
        }

    def may_pay(self, switch: Switch) -> bool:
        """Return whether a switch can be made, and no measurement of others like these groups speaks against it.

        A measured structure gives way to the library alone, and only where that is expected to be faster.
        """
        open_groups = [name for name in switch.groups if name not in self.settled]
        if switch.to.variant == LIBRARY:
            losing = any(name in self.expected and self.expected[name].library_wins for name in switch.groups)
            return (losing or bool(open_groups)) and self._leaves_kernels(switch)
        if not open_groups or self.hopeless.keys() & set(switch.groups):
            return False
        return all(switch.to.variant in self.structures.get(name, ()) for name in switch.groups)

    def _leaves_kernels(self, switch: Switch) -> bool:
        """Return whether there is a kernel left to write where these groups' anchors are PyTorch's."""
        if self.task.triton_only:
            return False
        graph, playbook = graph_of(self.task), playbook_names(self.groups)[switch.groups[0]]
        dropped = drop_some(graph, playbooks(), self.dropped, playbook, len(switch.groups))
        return bool(make_plan(graph, playbooks(), None, dropped).groups)

    def library_ms(self) -> float:
        """Return what the operators that were left to PyTorch are expected to take there, where that was measured."""
        graph, task, total = graph_of(self.task), self.task, 0.0
        for node in make_plan(graph, playbooks(), None, self.dropped).left:
            for playbook in playbooks():
                group = playbook.match(graph, node.name, frozenset({node.name}))
                times = playbook.expected(graph, group, task.precision, task.target) if group is not None else None
                total += times.library_ms if times is not None else 0.0
        return total
