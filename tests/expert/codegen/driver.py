"""Run as a script with TRITON_INTERPRET=1: write each case's module and hold it against the reference in fp64.

Each is called at the two smallest of its captured shapes and the evaluator's; a large graph is captured at larger
shapes than its own.

Prints one JSON object: case -> {"playbooks", "left", "errors", "problem"}.
"""

import copy
import importlib.util
import json
import math
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from egg_graph.evaluator import choose_shapes, load_reference, shape_knobs
from egg_graph.expert.capture.export import export_graph
from egg_graph.expert.capture.folds import fold_linear_steps
from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.module import write_module
from egg_graph.expert.playbooks.convolution.layout import prepare
from egg_graph.expert.playbooks.planner import make_plan, write_kernels
from egg_graph.expert.playbooks.registry import PLAYBOOKS
from tests.expert.references import CASES, Case


@cache
def captured(source: str) -> CapturedGraph:
    """The graph of a reference, captured once for all structures forced upon it."""
    return prepare(fold_linear_steps(export_graph(source, "ieee")))


def examine(name: str, case: Case, folder: Path) -> dict[str, Any]:
    graph = captured(case.source)
    plan = make_plan(graph, PLAYBOOKS, None, case.dropped)
    if case.variant:
        plan = make_plan(graph, PLAYBOOKS, {next(iter(plan.groups)): case.variant})
    path = folder / f"{name}.py"
    text = write_module(case.source, plan, write_kernels(plan, PLAYBOOKS, "ieee"))
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    candidate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(candidate)
    sizes = shape_knobs(case.source)
    shapes = {json.dumps(knobs, sort_keys=True): knobs for knobs in (*graph.knobs, *choose_shapes(case.source))}
    first, other = sorted(shapes.values(), key=lambda knobs: math.prod({**sizes, **knobs}.values()))[:2]
    folded = bool(graph.proofs)
    errors = compare(case, candidate, first, keeps_weights=folded or "packed_weights" in text)
    errors += compare(case, candidate, other, keeps_weights=folded)
    return {
        "playbooks": [group.playbook for group in plan.groups.values()],
        "left": [node.base for node in plan.left],
        "shapes": len(graph.knobs),
        "wrappers": sum(text.count(f"\ndef {name}(") for name in plan.groups),
        "errors": errors,
    }


def compare(case: Case, candidate: Any, knobs: dict[str, int], *, keeps_weights: bool) -> list[float]:
    """Relative L2 error of each output and buffer; infinite where shape, dtype or structure differ.

    What is made from a weight has to follow it: a candidate that keeps such numbers answers once before its weights
    change in place.
    """
    reference = load_reference(case.source, knobs)
    model, inputs = reference.model(0), reference.inputs(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        arguments, keywords = reference.init_arguments()
        new = candidate.ModelNew(*arguments, **keywords)
        if keeps_weights:
            new(*inputs)
        new.load_state_dict(model.state_dict())
        expected = model(*inputs)
        exact = copy.deepcopy(model).double()
        exact.load_state_dict(new.state_dict())
        answer = new(*inputs)
        truth = exact(*(x.double() if x.is_floating_point() else x for x in inputs))
    if pytree.tree_structure(expected) != pytree.tree_structure(answer):
        return [float("inf")]
    rows = zip(*(pytree.tree_leaves(t) for t in (truth, expected, answer)), strict=True)
    errors = [error(*row) for row in rows]
    return errors + [error(b.double(), b, c) for b, c in zip(model.buffers(), new.buffers(), strict=True)]


def error(truth: torch.Tensor, expected: torch.Tensor, answer: torch.Tensor) -> float:
    if answer.shape != expected.shape or answer.dtype != expected.dtype:
        return float("inf")
    return ((answer.double() - truth).norm() / truth.double().norm().clamp_min(1e-30)).item()


if __name__ == "__main__":
    torch.set_num_threads(1)
    answers = {}
    with tempfile.TemporaryDirectory() as scratch:
        for case_name in sys.argv[1:]:
            try:
                answers[case_name] = examine(case_name, CASES[case_name], Path(scratch))
            except Exception as failure:  # noqa: BLE001 - told in the answer, so that the other cases still run
                answers[case_name] = {"problem": f"{type(failure).__name__}: {failure}"}
    print(json.dumps(answers))
