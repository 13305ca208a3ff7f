"""LSTM, GRU and RNN, whose steps wait for each other inside of one kernel."""

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.group import Group, KernelCode
from egg_graph.expert.playbooks.playbook import Playbook
from egg_graph.expert.playbooks.recurrence.match import GATES, group_of, recurrence_at
from egg_graph.expert.playbooks.recurrence.writer import RecurrenceWriter
from egg_graph.schema import Hardware, Precision


class RecurrencePlaybook(Playbook):
    """lstm, gru, rnn: up to 256 numbers of state in fp32 (512 in 16 bits), up to 64 samples; PyTorch beyond."""

    name = "recurrence"
    guidance = (
        "LSTM, GRU, RNN: a step is a small product, its price the launch and the weights' trip. Keep "
        "them: one cooperative launch (launch_cooperative_grid=True), a program a slice of the state, its rows of "
        "the weights in registers for all steps. After each step store the slice, barrier, count it (atomic, "
        "release), spin until all slices are counted (atomic, acquire), load the state past L1. Layers run side by "
        "side, each a step behind the one below; take the product with the layer below before waiting. fp32 takes "
        "three TF32 products: roundings come back in every step. 6 layers of 256, 512 steps of 10 on an H100: 4 ms, "
        "cuDNN's LSTM 17 to 25, its GRU 37."
    )
    operators = frozenset(GATES)
    complexity = 7
    register_knobs = ("UNITS",)

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Group the recurrence at `start` with the nodes that name its results."""
        found = recurrence_at(graph, start)
        if found is None or not {start, *graph.users[start]} <= free:
            return None
        return group_of(graph, found, self.name, self.variants[0])

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write kernel and wrapper: products in the policy's precision, gates and cells in fp32."""
        found = next(r for r in (recurrence_at(graph, node) for node in group.nodes) if r is not None)
        return RecurrenceWriter(graph, group, found, name, precision, target).code()
