"""Reductions of a whole tensor to one number: losses and norms."""

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.expressions import is_pointwise
from egg_graph.expert.codegen.fusion import Body, is_moving
from egg_graph.expert.codegen.group import Group, KernelCode, Tuning
from egg_graph.expert.codegen.indexing import OFFSETS, SCALAR, Index, Unfusable
from egg_graph.expert.codegen.launch import Wrapper, call, describe, kernel
from egg_graph.expert.codegen.reductions import IDENTITY, Space, check, is_reduction, space_of
from egg_graph.expert.playbooks.grow import grow, without_last_views
from egg_graph.expert.playbooks.knobs import power_of_two
from egg_graph.expert.playbooks.playbook import Playbook
from egg_graph.schema import Hardware, Precision

SUPPORTED = frozenset({"sum", "mean", "amax", "amin"})
"""Reductions whose partial results combine by the same reduction."""
AT_ONCE = 2**14
"""Elements up to which one program reduces all: a second launch takes longer than it does."""


class FullReductionPlaybook(Playbook):
    """Sums, means and extremes of an elementwise expression over a whole tensor, then scalar arithmetic."""

    name = "full_reduction"
    operators = frozenset({
        "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "binary_cross_entropy",
        "binary_cross_entropy_with_logits", "cross_entropy_loss", "nll_loss_nd", "nll_loss_forward",
        "triplet_margin_loss", "hinge_embedding_loss", "margin_ranking_loss", "cosine_embedding_loss",
        "sum.default", "mean.default", "max.default", "min.default", "linalg_vector_norm",
    })  # fmt: skip
    guidance = (
        "Loss or norm over a whole tensor: two kernels without atomics, so that the result is the same every time; a "
        "few thousand elements take one program and one launch. The first kernel runs a fixed number of programs (8 a "
        "multiprocessor), each striding over blocks with one running value per lane; the second adds the partial "
        "results in one program and does the scalar arithmetic. The elementwise part of the loss belongs into the "
        "first: nothing of full size is ever written."
    )

    complexity = 2

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Grow a group around the full reduction at `start`; other full reductions of the same tensor join."""
        if not is_reduction(graph[start]):
            return None
        try:
            space = space_of(graph, graph[start])
        except Unfusable:
            return None
        if not space.is_full:
            return None

        def may_join(name: str) -> bool:
            node = graph[name]
            return is_pointwise(node) or is_reduction(node) or is_moving(node, graph)

        group = grow(
            graph,
            [start],
            free,
            may_join,
            lambda nodes: _FullReductionWriter(graph, nodes, space, "probe"),
            sibling=lambda name: is_reduction(graph[name]),
        )
        return None if group is None else Group.of(graph, self.name, set(without_last_views(graph, group)))

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write the kernel of the partial results, the kernel of the total, and their wrapper; one kernel if few."""
        space = space_of(graph, next(graph[node] for node in group.nodes if is_reduction(graph[node])))
        return _FullReductionWriter(graph, frozenset(group.nodes), space, name).code()


class _PartialBody(Body):
    """The body of the first kernel: tiles that reductions read. It refuses anything scalar."""

    def reduce(self, node: Node, index: Index) -> str:
        raise Unfusable(f"{node.name} is no elementwise operator")


class _FinalBody(Body):
    """The body of the second kernel: scalar arithmetic over finished reductions."""

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str], results: dict[str, str]) -> None:
        super().__init__(graph, nodes)
        self.results = results

    def reduce(self, node: Node, index: Index) -> str:
        if node.name not in self.results:
            raise Unfusable(f"{node.op} is neither elementwise nor a reduction of this kernel")
        return self.results[node.name]


class _FullReductionWriter:
    """Writes both kernels and the wrapper."""

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str], space: Space, name: str) -> None:
        self.graph, self.space, self.name = graph, space, name
        self.outputs = graph.writes(nodes)
        if any(set(graph[o].numel) != {1} for o in self.outputs):
            raise Unfusable("an output has more than one element")
        self.reductions = [n for n in graph.nodes if n.name in nodes and is_reduction(n)]
        for node in self.reductions:
            check(graph, node)
            if node.base not in SUPPORTED or space_of(graph, node).numel != space.numel:
                raise Unfusable(f"{node.name} is another kind of reduction")
        self.at_once = space.numel[0] <= AT_ONCE
        self.parts = _PartialBody(graph, nodes, fill=True)
        self._accumulate()
        self.final = _FinalBody(graph, nodes, {n.name: n.name for n in self.reductions})
        if self.at_once:
            self.final.share_labels(self.parts)
            self.final.numbers = self.parts.numbers
        self.labels = [self.final.out(i, len(self.outputs)) for i in range(len(self.outputs))]
        for label, output in zip(self.labels, self.outputs, strict=True):
            self.final.store(label, self.final.value(output, SCALAR), SCALAR)
        self.wrapper = Wrapper(graph, self.parts, name)
        self.doc = describe(graph, graph.ordered(nodes), self.outputs)

    def _accumulate(self) -> None:
        self.start: list[str] = []
        self.end: dict[str, str] = {}
        for node in self.reductions:
            value = self.parts.value(node.inputs[0], OFFSETS)
            acc = f"{node.name}_acc"
            if node.base in ("sum", "mean"):
                self.start.append(f"{acc} = tl.zeros([BLOCK], tl.float32)")
                self.parts.emit(f"{acc} += tl.where(mask, {value}, 0)")
                self.end[node.name] = f"tl.sum({acc}, axis=0)"
            else:
                which = node.base.removeprefix("a")
                self.start.append(f"{acc} = tl.full([BLOCK], {IDENTITY[node.base]}, tl.float32)")
                filled = f"tl.where(mask, {value}, {IDENTITY[node.base]})"
                self.parts.emit(f"{acc} = tl.{which}imum({acc}, {filled})")
                self.end[node.name] = f"tl.{which}({acc}, axis=0)"

    def code(self) -> KernelCode:
        config, space = self._tuning().prefixed(self.name)
        kernels = (self._one_kernel(),) if self.at_once else (self._parts_kernel(), self._final_kernel())
        how = "one program" if self.at_once else "partial results, then one program"
        return KernelCode(
            function=self.name,
            source="\n\n".join((*kernels, self._one_wrapper() if self.at_once else self._wrapper())),
            tensors=(*self.wrapper.tensors, *self._scalars()),
            returns=self.outputs,
            sizes=tuple(self.wrapper.sizes),
            config=config,
            space=space,
            helpers=tuple(sorted(self.parts.helpers | self.final.helpers)),
            summary=f"{how}: {self.doc}",
        )

    def _tuning(self) -> Tuning:
        if self.at_once:
            block = power_of_two(self.space.numel[0], 256, 4096)
            return Tuning(
                {"BLOCK": block, "num_warps": max(4, block // 256), "num_stages": 2},
                {"parallel_mapping": {"num_warps": (4, 8, 16)}},
            )
        return Tuning(
            {"BLOCK": 1024, "PROGRAMS": 1024, "num_warps": 8, "num_stages": 3},
            {
                "parallel_mapping": {"num_warps": (8, 4, 16), "PROGRAMS": (1024, 512, 2048)},
                "tensor_tiling": {"BLOCK": (1024, 2048, 4096)},
                "memory_optimization": {"num_stages": (3, 4, 2)},
            },
        )

    def _scalars(self) -> list[str]:
        """Return the tensors that only the scalar arithmetic reads."""
        return [r for r in self.final.roots if r not in self.parts.roots]

    def _one_kernel(self) -> str:
        body = self.parts
        arguments = [
            *(f"{body.label(root)}_ptr" for root in [*body.roots, *self._scalars()]),
            *(f"{label}_ptr" for label in self.labels), "n_elements", *body.numbers.values(),
            *(f"{s}: tl.constexpr" for s in body.sizes.values()), "BLOCK: tl.constexpr", "STAGES: tl.constexpr",
        ]  # fmt: skip
        means = {n.name for n in self.reductions if n.base == "mean"}
        lines = [
            *self.start,
            "for start in tl.range(0, n_elements, BLOCK, num_stages=STAGES):",
            "    offsets = start + tl.arange(0, BLOCK)",
            "    mask = offsets < n_elements",
            *(f"    {line}" for line in body.lines),
            *(f"{name} = {text}" + (" / n_elements" if name in means else "") for name, text in self.end.items()),
            *self.final.lines,
        ]
        return kernel(f"{self.name}_kernel", arguments, f"{self.doc}, by one program.", lines)

    def _one_wrapper(self) -> str:
        wrapper, name = self.wrapper, self.name
        wrapper.labels += [self.final.label(scalar) for scalar in self._scalars()]
        lines = self._allocations(wrapper.size(self.space.numel))
        arguments = [
            *wrapper.labels, *self.labels, "n_elements", *(wrapper.number(v) for v in self.parts.numbers),
            *wrapper.constants(), f'BLOCK=CONFIG["{name}_BLOCK"]', f'STAGES=CONFIG["{name}_num_stages"]',
            f'num_warps=CONFIG["{name}_num_warps"]',
        ]  # fmt: skip
        lines += [*call(f"{name}_kernel[(1,)]", arguments, indent=4), f"return {', '.join(self.labels)}"]
        return wrapper.function(f"{self.doc}.", lines)

    def _allocations(self, numel: str) -> list[str]:
        first = self.parts.label(self.parts.roots[0])
        lines = [f"n_elements = {numel}"]
        for label, output in zip(self.labels, self.outputs, strict=True):
            shape = "()" if self.graph[output].rank == 0 else self.wrapper.shape(output)
            lines.append(f"{label} = torch.empty({shape}, device={first}.device, dtype={self._dtype(first, output)})")
        return lines

    def _parts_kernel(self) -> str:
        body = self.parts
        arguments = [
            *(f"{body.label(root)}_ptr" for root in body.roots), "partial_ptr", "n_elements", "n_programs",
            *body.numbers.values(), *(f"{s}: tl.constexpr" for s in body.sizes.values()),
            "BLOCK: tl.constexpr", "STAGES: tl.constexpr", "WIDE: tl.constexpr",
        ]  # fmt: skip
        lines = [
            "pid = tl.program_id(0)",
            *self.start,
            "first = pid * BLOCK",
            "if WIDE:  # more elements than 32 bits can count",
            "    first = first.to(tl.int64)",
            "for start in tl.range(first, n_elements, n_programs * BLOCK, num_stages=STAGES):",
            "    offsets = start + tl.arange(0, BLOCK)",
            "    mask = offsets < n_elements",
            *(f"    {line}" for line in body.lines),
            *(f"tl.store({self._where(place)} + pid, {text})" for place, text in enumerate(self.end.values())),
        ]
        return kernel(f"{self.name}_parts_kernel", arguments, "One partial result a program.", lines)

    def _final_kernel(self) -> str:
        body = self.final
        arguments = [
            "partial_ptr", *(f"{body.label(root)}_ptr" for root in body.roots), *(f"{lb}_ptr" for lb in self.labels),
            "n_programs", "n_elements", *body.numbers.values(), "LANES: tl.constexpr",
        ]  # fmt: skip
        lines = ["lanes = tl.arange(0, LANES)", "mask = lanes < n_programs"]
        for place, node in enumerate(self.reductions):
            where = f"{self._where(place)} + lanes"
            if node.base in ("sum", "mean"):
                total = f"tl.sum(tl.load({where}, mask=mask, other=0.0), axis=0)"
                lines.append(f"{node.name} = {total}" + (" / n_elements" if node.base == "mean" else ""))
            else:
                which = node.base.removeprefix("a")
                lines.append(
                    f"{node.name} = tl.{which}(tl.load({where}, mask=mask, other={IDENTITY[node.base]}), axis=0)"
                )
        return kernel(
            f"{self.name}_final_kernel", arguments, f"{self.doc}, from the partial results.", [*lines, *body.lines]
        )

    def _where(self, place: int) -> str:
        """Return the pointer to a reduction's partial results."""
        return f"partial_ptr + {place} * n_programs" if place else "partial_ptr"

    def _wrapper(self) -> str:
        wrapper, name = self.wrapper, self.name
        for scalar in self._scalars():
            wrapper.labels.append(self.final.label(scalar))
        first = self.parts.label(self.parts.roots[0])
        numel = wrapper.size(self.space.numel)
        knob = {k: f'CONFIG["{name}_{k}"]' for k in ("BLOCK", "PROGRAMS", "num_warps", "num_stages")}
        lines = [
            *self._allocations(numel),
            f"programs = min({knob['PROGRAMS']}, triton.cdiv(n_elements, {knob['BLOCK']}))",
            f"partial = torch.empty(({len(self.reductions)}, programs), device={first}.device, dtype=torch.float32)",
        ]
        numbers = [wrapper.number(v) for v in self.parts.numbers]
        lines += call(
            f"{name}_parts_kernel[(programs,)]",
            [*(self.parts.label(r) for r in self.parts.roots), "partial", "n_elements", "programs", *numbers,
             *wrapper.constants(), f"BLOCK={knob['BLOCK']}", f"STAGES={knob['num_stages']}", "WIDE=n_elements >= 2**30",
             f"num_warps={knob['num_warps']}"],
            indent=4,
        )  # fmt: skip
        final_numbers = [wrapper.number(v) for v in self.final.numbers]
        lines += call(
            f"{name}_final_kernel[(1,)]",
            ["partial", *(self.final.label(r) for r in self.final.roots), *self.labels, "programs", "n_elements",
             *final_numbers, "LANES=triton.next_power_of_2(programs)"],
            indent=4,
        )  # fmt: skip
        lines.append(f"return {', '.join(self.labels)}")
        return wrapper.function(f"{self.doc}.", lines)

    def _dtype(self, first: str, output: str) -> str:
        same = self.graph[output].dtype == self.graph[self.parts.roots[0]].dtype
        return f"{first}.dtype" if same else f"torch.{self.graph[output].dtype}"
