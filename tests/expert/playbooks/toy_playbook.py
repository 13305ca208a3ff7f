"""A whole playbook in one file: `torch.hypot` of two tensors of one shape."""

from egg_graph.expert import CapturedGraph, Group, KernelCode, Playbook
from egg_graph.schema import Hardware, Precision

SOURCE = '''@triton.jit
def {name}_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    """out = sqrt(x^2 + y^2)."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.sqrt(x * x + y * y), mask=mask)


def {name}(x, y):
    """Length of the hypotenuse."""
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    grid = (triton.cdiv(out.numel(), CONFIG["{name}_BLOCK"]),)
    {name}_kernel[grid](x, y, out, out.numel(), BLOCK=CONFIG["{name}_BLOCK"])
    return out
'''


class HypotPlaybook(Playbook):
    """The length of the hypotenuse."""

    name = "hypot"
    guidance = "Hypotenuse: one pass, squares in fp32."
    operators = frozenset({"hypot"})

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Match one hypot of two tensors of one shape."""
        node = graph[start]
        same = node.base == "hypot" and all(graph[name].shapes == node.shapes for name in node.inputs)
        return Group.of(graph, self.name, {start}) if same and len(node.inputs) == 2 else None

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write one elementwise kernel."""
        return KernelCode(
            function=name,
            source=SOURCE.format(name=name),
            tensors=graph[group.nodes[0]].inputs,
            returns=group.outputs,
            config={f"{name}_BLOCK": 256},
            space={"tensor_tiling": {f"{name}_BLOCK": (128, 256, 512)}},
        )
