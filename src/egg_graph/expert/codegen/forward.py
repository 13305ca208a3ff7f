"""Write the new `forward`: straight-line code that calls the wrappers, and PyTorch for operators without a kernel."""

from collections.abc import Mapping

from pydantic import JsonValue

from egg_graph.expert.capture.graph import Node, Placeholder, member
from egg_graph.expert.codegen.group import Group, KernelCode
from egg_graph.expert.codegen.joining import joints
from egg_graph.expert.codegen.launch import call
from egg_graph.expert.codegen.parts import OF_PARTS, PARTS, is_by_sample
from egg_graph.expert.codegen.plan import Plan, execution_order
from egg_graph.expert.codegen.reference import CannotWrite
from egg_graph.expert.codegen.sizes import Scope, forward_scope

FUNCTIONAL = frozenset(
    {"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "linear", "max_pool1d",
     "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "scaled_dot_product_attention",
     "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"}
)  # fmt: skip
"""Operators whose arguments `torch.nn.functional` takes in the same order."""
TORCH = frozenset(
    {
        "matmul",
        "bmm",
        "mm",
        "addmm",
        "baddbmm",
        "cumsum",
        "cumprod",
        "flip",
        "cat",
        "stack",
        "tril",
        "triu",
        "split",
        "outer",
    }
)
SYMBOLS = {"__and__": "&", "__or__": "|", "__xor__": "^", "__lshift__": "<<", "__rshift__": ">>"}
"""Operators that ATen has under the names of Python's own methods."""
KEPT = "packed_weights"
"""The module's attribute that holds packed copies of weights."""
RESERVED = frozenset({"self", "torch", "nn", "F", "triton", "tl", "math", "CONFIG", "SPACE", "counters"})


class ForwardWriter:
    """Writes the statements of `forward`."""

    def __init__(self, plan: Plan, codes: Mapping[str, KernelCode], arguments: list[str]) -> None:
        self.plan, self.graph, self.codes = plan, plan.graph, codes
        self.lines: list[str] = []
        self.taken = set(RESERVED) | set(arguments) | {c.function for c in codes.values()}
        self.names: dict[str, str] = {}
        self.scope: Scope = forward_scope(self.graph)
        self.joints = joints(self.graph, codes)
        self.slices: dict[str, dict[str, str]] = {}
        """Concatenations whose memory is there before their parts are, with the slice of each part."""
        self.written: set[str] = set()
        """Parts that kernels write to their slices."""
        self.in_place: set[str] = set()
        """Nodes that need no statement: a library call computes them or writes them to their buffer."""

    def statements(self) -> list[str]:
        """Write the body of `forward`.

        Raises:
            CannotWrite: if a number of the captures follows from no tensor's size.
        """
        group_name = {id(group): name for name, group in self.plan.groups.items()}
        self.in_place.update(self._counters())
        for unit in execution_order(self.plan):
            if isinstance(unit, Group):
                self._call(group_name[id(unit)])
            elif unit.name in self.slices:
                self._join_rest(unit)
            elif not self._special(unit) and unit.name not in self.in_place:
                self._bind(unit.name, self._library(unit))
        self._write_back()
        self._count()
        self.lines.append(f"return {self._structure(self.graph.outputs)}")
        return self.lines

    @property
    def helpers(self) -> set[str]:
        """Helpers that the statements call."""
        known = {d.function for d in self.graph.derived} | {"moments_of", "joined_moments"}
        return {name for name in known if any(f"{name}(" in line for line in self.lines)}

    def text(self, name: str) -> str:
        """Return the expression for a tensor inside `forward`."""
        node = self.graph[name]
        if isinstance(node, Placeholder):
            if node.value is not None:
                return f"torch.full((), {node.value!r}, dtype=torch.{node.dtype}, device={self._device()})"
            return node.text
        return self.names[name]

    def _bind(self, name: str, text: str) -> None:
        self.lines.append(f"{self._fresh(name)} = {text}")

    def _fresh(self, name: str) -> str:
        wish, n = name, 1
        while wish in self.taken:
            n += 1
            wish = f"{name}_{n}"
        self.taken.add(wish)
        self.names[name] = wish
        shapes = self.graph[name].shapes
        if shapes and self.graph[name].op != PARTS:
            self.scope.add_tensor(wish, shapes)
        return wish

    def _device(self) -> str:
        for p in self.graph.placeholders:
            if p.kind != "constant":
                return f"{p.text}.device"
        raise CannotWrite("the forward has neither an input nor a parameter to take its device from")

    def _write_back(self) -> None:
        """Give what the forward changes its new value: a buffer keeps its memory, a tensor just held is replaced."""
        just_held = {p.target for p in self.graph.placeholders if p.kind == "constant"}
        for target, name in self.graph.mutations.items():
            if target in just_held:
                self.lines.append(f"{member(target)} = {self.text(name)}")
            elif name not in self.in_place:
                self.lines.append(f"{member(target)}.copy_({self.text(name)})")

    def _counters(self) -> dict[str, tuple[str, JsonValue]]:
        """Return the nodes that only add a number to a buffer without dimensions, with the buffer and the number."""
        graph = self.graph
        found: dict[str, tuple[str, JsonValue]] = {}
        for buffer, name in graph.mutations.items():
            node = graph[name]
            if node.op != "aten.add.Tensor" or graph.users[name] or graph.is_placeholder(name) or node.rank:
                continue
            first, number = graph[node.inputs[0]], node.args[1]
            counts = isinstance(first, Placeholder) and first.kind == "buffer" and first.target == buffer
            if counts and isinstance(number, int | float) and not node.kwargs and self._is_alone(name):
                found[name] = (member(buffer), number)
        return found

    def _is_alone(self, name: str) -> bool:
        """Return whether a node belongs to no group, and the forward does not return it."""
        return name not in self.graph.answers and all(name not in group.nodes for group in self.plan.groups.values())

    def _count(self) -> None:
        """Write the additions to counters, those of one number by one call."""
        by_number: dict[JsonValue, list[str]] = {}
        for buffer, number in self._counters().values():
            by_number.setdefault(number, []).append(buffer)
        for number, buffers in by_number.items():
            if len(buffers) == 1:
                self.lines.append(f"{buffers[0]}.add_({number!r})")
            else:
                self.lines += [*call("counters = ", buffers, indent=8), f"torch._foreach_add_(counters, {number!r})"]

    def _call(self, group: str) -> None:
        code = self.codes[group]
        arguments = [self.text(name) for name in code.tensors]
        for values in code.sizes:
            arguments.append(self._number(values, f"an argument of {code.function}"))
        if code.keeps:
            arguments += [f"self.{KEPT}", f'"{group}"']
        if code.into and (place := self._place_in_joint(code)) is not None:
            self.lines.append(f"{code.function}({', '.join([*arguments, place])})")
            return
        self.in_place.update(code.in_place)
        targets = ", ".join(self._fresh(name) for name in code.returns)
        self.lines += call(f"{targets}{' = ' if targets else ''}{code.function}", arguments, indent=8)

    def _place_in_joint(self, code: KernelCode) -> str | None:
        """Return the slice that a part is written to, and have the whole allocated; None where it is a tensor apart."""
        part = code.returns[0]
        joint = self.joints.get(part)
        if joint is None:
            return None
        name = joint.node.name
        if name not in self.slices:
            samples = f"{self.text(code.tensors[0])}.shape[0]"
            shape, slices = joint.shape(self.scope, samples), joint.slices(self.scope)
            if shape is None or slices is None:
                return None
            self.slices[name] = slices
            self._bind(name, f"torch.empty({shape}, device={self._device()}, dtype=torch.{joint.node.dtype})")
        self.written.add(part)
        return f"{self.text(name)}{self.slices[name][part]}"

    def _join_rest(self, node: Node) -> None:
        """Copy the parts of a concatenation that no kernel wrote in place."""
        for part, index in self.slices[node.name].items():
            if part not in self.written:
                self.lines.append(f"{self.text(node.name)}{index}.copy_({self.text(part)})")

    def _number(self, values: "tuple[int, ...] | tuple[float, ...] | list", what: str) -> str:
        if all(isinstance(v, int) for v in values):
            text = self.scope.express(int(v) for v in values)
        else:
            text = self.scope.express_float(values)
        if text is None:
            knobs = ", ".join(self._moving(values)) or "the shape"
            raise CannotWrite(
                f"{what} is {list(values)} in the captures: it varies with {knobs}, and follows from no tensor's size "
                "and no number that the module holds; let Model.__init__ hold it: self.x = ..."
            )
        return text

    def _moving(self, values: "tuple[int, ...] | tuple[float, ...] | list") -> list[str]:
        """Names of the reference's integers that were overridden wherever a number differs from that at full shape."""
        moved = [set(knobs) for knobs, value in zip(self.graph.knobs, values, strict=True) if value != values[0]]
        still = [set(knobs) for knobs, value in zip(self.graph.knobs, values, strict=True) if value == values[0]]
        return sorted(set.intersection(*moved).difference(*still))

    def _library(self, node: Node) -> str:
        """Write the PyTorch call of one operator."""
        if node.base == "getitem":
            return f"{self.text(node.inputs[0])}[{node.args[1]}]"
        args = [self._arg(a, node) for a in node.args]
        args += [f"{k}={self._arg(v, node)}" for k, v in node.kwargs.items() if not _is_noise(k, v)]
        if node.base in ("view", "_unsafe_view", "reshape"):
            return f"{args[0]}.reshape({', '.join(args[1:])})"
        if (
            node.base in ("unsqueeze", "squeeze", "transpose", "permute", "expand", "contiguous", "unfold")
            and node.rank >= 0
        ):
            return f"{args[0]}.{node.base}({', '.join(args[1:])})"
        if node.base in ("detach", "alias", "lift_fresh_copy"):
            return args[0]
        if node.op == PARTS:
            return f"moments_of({args[0]}, {args[1]})"
        if node.op in OF_PARTS:
            return self._joined(node, args)
        if node.base == "channels_last":
            return f"{args[0]}.contiguous(memory_format=torch.channels_last)"
        if node.base in SYMBOLS:
            return f"{args[0]} {SYMBOLS[node.base]} {args[1]}"
        if node.base in FUNCTIONAL:
            return f"F.{node.base}({', '.join(args)})"
        if node.base in TORCH:
            return f"torch.{node.base}({', '.join(args)})"
        return f"torch.ops.{node.op}({', '.join(args)})"

    def _joined(self, node: Node, args: list[str]) -> str:
        """Write the call that joins moments of parts without a kernel."""
        groups, shape = "None", ["-1"] if node.rank == 1 else ["1", "-1", *("1" for _ in node.shape[2:])]
        if is_by_sample(self.graph[node.inputs[0]]):
            groups = self._number(list(node.size(1)), "the groups of a norm")
            shape = ["-1", groups, *("1" for _ in node.shape[2:])]
        correction = args[1] if len(args) > 1 else "None"
        return f"joined_moments({args[0]}, {groups}, {correction}).view({', '.join(shape)})"

    def _arg(self, arg: JsonValue, node: Node) -> str:
        if isinstance(arg, list):
            return f"[{', '.join(self._arg(a, node) for a in arg)}]"
        if not isinstance(arg, dict):
            return repr(arg)
        ((kind, value),) = arg.items()
        if kind == "node":
            return self.text(str(value))
        if kind in ("sizes", "floats"):
            assert isinstance(value, list)
            return self._number(value, f"an argument of {node.op}")
        if kind == "device":
            return self._device()
        return f'float("{value}")' if kind == "float" else f"torch.{value}"

    def _special(self, node: Node) -> bool:
        """Write one library call for an operator that functionalization took apart; return False for any other."""
        if node.base == "native_dropout":
            results = self._results(node)
            if set(results) != {0}:
                return False
            x, p = self._arg(node.args[0], node), self._arg(node.args[1], node)
            self._bind(results[0], f"F.dropout({x}, {p}, training=self.training)")
        elif node.base == "_native_batch_norm_legit_functional":
            results = self._results(node)
            if not set(results) <= {0, 3, 4} or any(self.graph.users[results[i]] for i in (3, 4) if i in results):
                return False
            x, weight, bias, mean, var, training, momentum, eps = (self._arg(a, node) for a in node.args)
            call = f"F.batch_norm({x}, {mean}, {var}, {weight}, {bias}, {training}, {momentum}, {eps})"
            self._bind(results[0], call)
            self.in_place.update(results[i] for i in (3, 4) if i in results)
        else:
            return False
        self.in_place.update(results.values())
        return True

    def _results(self, node: Node) -> dict[int, str]:
        return {int(self.graph[u].args[1]): u for u in self.graph.users[node.name]}  # type: ignore[arg-type]

    def _structure(self, tree: JsonValue) -> str:
        if not isinstance(tree, dict):
            return repr(tree)
        ((kind, value),) = tree.items()
        if kind == "node":
            return self.text(str(value))
        if kind == "dict":
            assert isinstance(value, dict)
            return "{" + ", ".join(f"{k!r}: {self._structure(v)}" for k, v in value.items()) + "}"
        assert isinstance(value, list)
        items = ", ".join(self._structure(v) for v in value)
        return f"[{items}]" if kind == "list" else f"({items}{',' if len(value) == 1 else ''})"


def _is_noise(keyword: str, value: JsonValue) -> bool:
    return value is None or keyword in ("layout", "pin_memory")
