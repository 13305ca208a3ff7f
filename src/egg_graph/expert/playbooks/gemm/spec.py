"""What the templates of a matrix product share: the arithmetic, launch arguments and wrapper lines of one product."""

from dataclasses import dataclass

from egg_graph.expert.capture.graph import Node
from egg_graph.expert.playbooks.gemm.epilogue import Epilogue
from egg_graph.expert.playbooks.gemm.match import Product
from egg_graph.schema import Knob


@dataclass(frozen=True)
class GemmSpec:
    """One product as the templates see it."""

    name: str
    product: Product
    epilogue: Epilogue
    output: Node
    round_tf32: bool
    """Whether fp32 operands go to tensor cores and must be rounded first, because the cores truncate."""
    tf32x3: bool
    """Whether tensor cores get fp32 operands in two parts each: three products, with the digits of fp32."""
    ieee: bool
    """Whether fp32 operands are multiplied in fp32."""
    config: dict[str, Knob]
    """Knobs by names without the group's prefix."""
    keeps: bool = False
    """Whether a packed b is kept from call to call: b is a parameter, and may have to be packed."""

    @property
    def batched(self) -> bool:
        return self.product.batched

    @property
    def precision(self) -> str:
        """The precision argument of a `tl.dot` call, with its comma."""
        if self.ieee:
            return ', input_precision="ieee"'
        if self.tf32x3:
            return ', input_precision="tf32x3"'
        return ', input_precision="tf32"' if self.round_tf32 else ""

    def rounded(self, text: str) -> str:
        """Round an operand to TF32 where the arithmetic asks for it."""
        return f"round_to_tf32({text})" if self.round_tf32 else text

    @property
    def epilogue_parameters(self) -> str:
        return "".join(f" {parameter}," for parameter in self.epilogue.parameters)

    @property
    def epilogue_arguments(self) -> str:
        return "".join(f" {argument}," for argument in self.epilogue.arguments)

    def knob(self, knob: str) -> str:
        """Return the text that reads a knob."""
        return f'CONFIG["{self.name}_{knob}"]'

    def launch_options(self, *knobs: str, indent: int = 8) -> str:
        """Return the keyword arguments of a launch, one knob a line."""
        return "".join(f"{' ' * indent}{knob}={self.knob(knob)},\n" for knob in knobs).rstrip("\n")

    @property
    def output_dtype(self) -> str:
        """Text of the output's dtype: the operands' own unless the chain casts it."""
        captured = self.product.node.dtype
        return "a.dtype" if self.output.dtype == captured else f"torch.{self.output.dtype}"

    def wrapper_head(self) -> str:
        """Write signature, docstring and shapes. After these lines a is [M, K] and b [K, N], or `matrices` of them."""
        variables = ", ".join(["a", "b", *self.epilogue.variables, *(["kept", "layer"] if self.keeps else [])])
        b_text = "b [N, K] transposed" if self.product.transposed_b else "b [..., K, N]" if self.batched else "b [K, N]"
        lines = [f'"""{self.epilogue.formula}: a {self.product.a_text} times {b_text}, as [..., N]."""']
        if self.batched:
            lines += [
                "M, K, N = a.shape[-2], a.shape[-1], b.shape[-1]",
                "shape = (*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), M, N)",
                "a = a.expand(*shape[:-2], M, K).reshape(-1, M, K)",
                "b = b.expand(*shape[:-2], K, N).reshape(-1, K, N)",
                "matrices = a.shape[0]",
            ]
        else:
            if self.product.transposed_b:
                lines.append("b = b.t()")
            lines += [
                "shape = (*a.shape[:-1], b.shape[1])",
                "a = a.reshape(-1, a.shape[-1])",
                "M, K = a.shape",
                "N = b.shape[1]",
            ]
        lines += self.epilogue.prepare
        lines.append(f"out = torch.empty(shape, device=a.device, dtype={self.output_dtype})")
        return f"def {self.name}({variables}):\n" + "".join(f"    {line}\n" for line in lines)

    def strides(self) -> str:
        """Return the stride arguments of a, then of b, each with its batch stride first where there is one."""
        order = (0, 1, 2) if self.batched else (0, 1)
        return ", ".join(f"{tensor}.stride({dim})" for tensor in ("a", "b") for dim in order)


def assemble(*pieces: str) -> str:
    """Join top-level definitions with two blank lines between them."""
    return "\n\n".join(piece for piece in pieces if piece)
