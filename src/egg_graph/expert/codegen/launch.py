"""Write the wrapper around a kernel: make operands contiguous, read sizes off them, allocate outputs, launch."""

from collections.abc import Collection, Sequence

from pydantic import JsonValue

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.fusion import Body, takes_off_extreme
from egg_graph.expert.codegen.group import KernelCode, Tuning
from egg_graph.expert.codegen.indexing import Unfusable, Vector
from egg_graph.expert.codegen.sizes import Scope


class Wrapper:
    """Writes one wrapper function, around one kernel or around several that share labels.

    Args:
        graph: The captured graph.
        body: The kernel's.
        name: Of the function.
        more: The bodies of further kernels.
        unsized: Tensors whose sizes are not those of the graph, so that none is read off them.

    Raises:
        Unfusable: if the kernel reads no tensor, so that there is no device to run on.
    """

    def __init__(self, graph: CapturedGraph, body: Body, name: str, *more: Body, unsized: Collection[str] = ()) -> None:
        roots = dict.fromkeys(root for one in (body, *more) for root in one.roots)
        if not roots:
            raise Unfusable("a kernel without a tensor to read has no device to run on")
        self.graph = graph
        self.body = body
        self.bodies = (body, *more)
        self.name = name
        self.tensors = tuple(roots)
        self.labels = [body.label(root) for root in roots]
        self.sizes: list[tuple[int, ...] | tuple[float, ...]] = []
        self._parameters: list[str] = []
        self.in_place: dict[str, str] = {}
        """Nodes that are written into an operand, and the operand's label."""
        pairs = zip(self.labels, self.tensors, strict=True)
        self._sized = [(label, tensor) for label, tensor in pairs if tensor not in unsized]
        self._scope = Scope.of_tensors(graph, self._sized)

    def know(self, text: str, values: Vector) -> None:
        """Have further sizes written by a variable of the wrapper."""
        self._scope.add(text, values)

    def size(self, values: Vector) -> str:
        """Return a size as the wrapper's text: read off its tensors where they tell it, else a parameter."""
        text = self._scope.express(values)
        if text is None:
            text = self._parameter("size", values)
            self._scope.add(text, values)
        return text

    def number(self, values: tuple[float, ...]) -> str:
        """Return a float as the wrapper's text: computed from sizes where they tell it, else a parameter."""
        if all(isinstance(v, int) for v in values):
            return self.size(tuple(int(v) for v in values))
        return self._scope.express_float(values) or self._parameter("number", values)

    def _parameter(self, kind: str, values: tuple[int, ...] | tuple[float, ...]) -> str:
        self.sizes.append(values)
        self._parameters.append(f"{kind}_{len(self._parameters)}")
        return self._parameters[-1]

    def shape(self, name: str) -> str:
        """Write a tensor's shape as a tuple display."""
        dims = [self._dimension(name, d) for d in range(self.graph[name].rank)]
        return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"

    def _dimension(self, name: str, dim: int) -> str:
        """Write one size of a tensor. What no capture varied is read off an operand that has it at the same place.

        Small sizes, such as 8 channels, are the same in all captures, and no constant of the module for that.
        """
        node = self.graph[name]
        size = node.size(dim)
        if len(set(size)) == 1:
            for label, tensor in self._sized:
                if self.graph[tensor].rank == node.rank and self.graph[tensor].size(dim) == size:
                    return f"{label}.shape[{dim}]"
        return self.size(size)

    def allocation(self, name: str) -> str:
        """Write the allocation of an output: `empty_like` where an operand has its shape, else `empty`."""
        node = self.graph[name]
        same_dtype = [lb for lb, t in zip(self.labels, self.tensors, strict=True) if self.graph[t].dtype == node.dtype]
        dtype = f"{same_dtype[0]}.dtype" if same_dtype and node.is_float else f"torch.{node.dtype}"
        for label, tensor in self._sized:
            if self.graph[tensor].shapes == node.shapes:
                same = self.graph[tensor].dtype == node.dtype
                return f"torch.empty_like({label})" if same else f"torch.empty_like({label}, dtype={dtype})"
        return f"torch.empty({self.shape(name)}, device={self.labels[0]}.device, dtype={dtype})"

    def contiguous(self) -> list[str]:
        """Write one line for each operand that has dimensions, because kernels index in row-major order."""
        pairs = zip(self.labels, self.tensors, strict=True)
        labels = [label for label, tensor in pairs if self.graph[tensor].rank > 0]
        kept = [f"{label}_buffer = {label}" for label in self.in_place.values()]
        return [*kept, *(f"{label} = {label}.contiguous()" for label in labels)]

    def copied_back(self) -> list[str]:
        """Write what follows the launches where an operand that they wrote to was no contiguous tensor."""
        lines = []
        for label in self.in_place.values():
            lines += [f"if {label} is not {label}_buffer:", f"    {label}_buffer.copy_({label})"]
        return lines

    def constants(self, body: Body | None = None) -> list[str]:
        """Write the launch's keyword arguments that a body asks for: the first one where none is given.

        They are the sizes that it uses. And where it takes the largest of some products from each of them, the compiler
        must not fuse product and difference: that is rounded once and the largest product twice, so that it would not
        be 0 where it has to be, but thousands for products of the order of 1e11, and an exponential of it infinite.
        """
        body = body or self.body
        exact = ["enable_fp_fusion=False"] if takes_off_extreme(self.graph, body.inside) else []
        return [*(f"{name}={self.size(values)}" for values, name in body.sizes.items()), *exact]

    def runtime_numbers(self, body: Body | None = None) -> list[str]:
        """Write the launch's arguments for the numbers that a body uses: the first one where none is given."""
        return [self.number(values) for values in (body or self.body).numbers]

    def code(self, outputs: Sequence[str], sources: Sequence[str], tuning: Tuning, summary: str) -> KernelCode:
        """Return what a playbook hands over. Call this when `function` was written: all parameters are known then.

        Args:
            outputs: nodes that the function returns, in order.
            sources: the kernels, and the function.
            tuning: the knobs, without the group's prefix.
            summary: the group's line in the module's docstring.
        """
        config, space = tuning.prefixed(self.name)
        return KernelCode(
            function=self.name,
            source="\n\n".join(sources),
            tensors=self.tensors,
            returns=tuple(output for output in outputs if output not in self.in_place),
            in_place=tuple(self.in_place),
            sizes=tuple(self.sizes),
            config=config,
            space=space,
            helpers=tuple(sorted(frozenset().union(*(body.helpers for body in self.bodies)))),
            summary=summary,
        )

    def function(self, doc: str, lines: Sequence[str]) -> str:
        """Write the whole function. Call this last, when all parameters are known."""
        text = "\n".join(f"    {line}" if line else "" for line in [*self.contiguous(), *lines])
        head = "\n".join(call(f"def {self.name}", [*self.labels, *self._parameters], ":"))
        return f'{head}\n    """{doc}"""\n{text}\n'


def call(head: str, arguments: Sequence[str], tail: str = "", indent: int = 0) -> list[str]:
    """Write `head(arguments)tail` on one line where it fits, else with the arguments below the head."""
    joined = ", ".join(arguments)
    if len(head) + len(joined) + len(tail) + indent < 116:
        return [f"{head}({joined}){tail}"]
    lines = [""]
    for argument in arguments:
        if lines[-1] and len(lines[-1]) + len(argument) + indent > 108:
            lines.append("")
        lines[-1] += f"{argument}, "
    return [f"{head}(", *(f"    {line.rstrip()}" for line in lines), f"){tail}"]


def kernel(name: str, arguments: Sequence[str], doc: str, lines: Sequence[str]) -> str:
    """Write a whole `@triton.jit` function."""
    body = "\n".join(f"    {line}" if line else "" for line in lines)
    return "@triton.jit\n" + "\n".join(call(f"def {name}", arguments, ":")) + f'\n    """{doc}"""\n{body}\n'


def describe(graph: CapturedGraph, nodes: Sequence[str], outputs: Sequence[str], limit: int = 90) -> str:
    """Describe the arithmetic in one line: by a formula where it is short, else by the operators in order."""
    texts: dict[str, str] = {}
    for name in nodes:
        node = graph[name]
        operands = node.args[0] if isinstance(node.args[0], list) else node.args
        args = [_operand(graph, a, texts) for a in operands[: 3 if node.base in ("where", "addcmul") else 2]]
        if node.base in _SILENT:
            texts[name] = args[0]
        elif node.base in _SYMBOLS and len(args) == 2:
            texts[name] = f"({args[0]} {_SYMBOLS[node.base]} {args[1]})"
        elif node.base in _REDUCTIONS or node.base.startswith("var"):
            texts[name] = f"{node.base}({args[0]})"
        else:
            texts[name] = f"{node.base}({', '.join(a for a in args if a)})"
    whole = ", ".join(
        texts[o].removeprefix("(").removesuffix(")") if _bracketed(texts[o]) else texts[o] for o in outputs
    )
    if len(whole) <= limit:
        return whole
    bases = ", ".join(graph[n].base for n in nodes if graph[n].base not in _SILENT)
    return bases if len(bases) <= limit else bases[: limit - 2].rsplit(",", 1)[0] + ", …"


_SILENT = frozenset({"view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "detach", "alias", "expand", "clone",
                     "_to_copy", "getitem", "split", "slice"})  # fmt: skip
_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "eq": "==", "ne": "!=", "lt": "<", "gt": ">",
            "le": "<=", "ge": ">="}  # fmt: skip
_REDUCTIONS = frozenset({"sum", "mean", "amax", "amin", "argmax", "argmin"})


def _operand(graph: CapturedGraph, arg: JsonValue, texts: dict[str, str]) -> str:
    if isinstance(arg, dict) and "node" in arg:
        name = str(arg["node"])
        return texts.get(name) or str(getattr(graph[name], "target", name))
    if isinstance(arg, float):
        return f"{arg:.6g}"
    return str(arg) if isinstance(arg, int) else "n" if isinstance(arg, dict) else ""


def _bracketed(text: str) -> bool:
    """Return whether the first parenthesis closes at the end."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return place == len(text) - 1 and text.startswith("(")
    return False


def halved(pieces: str, halves: list[str], leaf: list[str]) -> list[str]:
    """Write the body of a device function that calls itself for each half of a tile until one piece is left.

    Args:
        pieces: Its parameter that counts the pieces, a power of two.
        halves: The lines that split the tile, and call the function for either half.
        leaf: The lines for one piece.
    """
    return [f"if {pieces} > 1:", *(f"    {line}" for line in halves), "else:", *(f"    {line}" for line in leaf)]
