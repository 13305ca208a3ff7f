"""What the expert sees in a reference, for others to use: operators, kernels it would write, what stays PyTorch."""

from egg_graph.expert.capture.process import capture_graph
from egg_graph.expert.playbooks.planner import make_plan
from egg_graph.expert.playbooks.registry import PLAYBOOKS
from egg_graph.schema import KernelTask, Value


class CaptureReport(Value):
    """A reference, as captured and planned."""

    operators: tuple[str, ...]
    """ATen operators of one forward, in order, composite ones taken apart as the playbooks see them."""
    inputs: dict[str, str]
    """`name -> "float32[16, 1024]"` at full shape."""
    kernels: dict[str, tuple[str, ...]]
    """Group name -> its operators."""
    left: tuple[str, ...]
    """Operators that stay PyTorch."""
    notes: tuple[str, ...]
    """What could not be captured or generalised."""


def capture_report(task: KernelTask) -> CaptureReport:
    """Capture a task's reference and plan its kernels.

    Raises:
        BadInput: if the reference cannot be loaded.
        CannotCapture: if `torch.export` has no graph for it.
        InfrastructureError: if the capturing process failed.
    """
    graph = capture_graph(task)
    plan = make_plan(graph, PLAYBOOKS)
    inputs = {p.target: f"{p.dtype}[{', '.join(map(str, p.shape))}]" for p in graph.placeholders if p.kind == "input"}
    return CaptureReport(
        operators=graph.operators,
        inputs=inputs,
        kernels={name: tuple(graph[n].op for n in group.nodes) for name, group in plan.groups.items()},
        left=tuple(node.op for node in plan.left),
        notes=graph.notes,
    )
