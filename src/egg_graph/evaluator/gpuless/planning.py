"""The calls that one process of the guarded interpreter makes at one shape, and how it is told of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.plan import Call, in_service
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.wire import exchange

MOST_CONFIGURATIONS = 48
"""Calls beyond the others that the configurations of autotuned kernels get."""


def plan(problem: Problem, name: str) -> list[Call]:
    """The calls at one shape.

    Raises:
        Unevaluable: as `Problem.cases`.
    """
    first, *more = problem.cases(name)
    calls = [Call(first, "the first call")]
    calls += [Call(case, "other inputs at the same addresses, weights loaded anew", reuse=True) for case in more]
    if name == problem.family_shape:
        families = problem.family_cases(name)
        calls += [Call(case, f"{case.family} inputs at the same addresses", reuse=True) for case in families]
        calls += in_service(problem, name, first)
        calls += [Call(first, "under another tuning configuration", tuning=True) for _ in range(MOST_CONFIGURATIONS)]
        calls.append(Call(first, "its Triton kernels doing nothing", silent=True))
    return [_somewhere(call, problem.seed(f"{name}/memory", index)) for index, call in enumerate(calls)]


def _somewhere(call: Call, seed: int) -> Call:
    return replace(call, manner=replace(call.manner, leftovers=bool(seed % 2)))


def written(calls: Sequence[Call], folder: Path) -> list[dict[str, Any]]:
    """Put inputs and weights into the folder; returns the calls as `jobs.interpret` takes them."""
    entries: list[dict[str, Any]] = []
    loaded: dict[int, Case] = {}
    for index, call in enumerate(calls):
        if call.tuning:
            entries.append({**entries[0], "tuning": True, "patience": call.patience})
            continue
        exchange.save(folder, f"inputs_{index}", call.case.inputs)
        weights = None
        last = loaded.get(call.manner.module)
        if last is None or call.case.state is not last.state or last.updates or call.case is calls[0].case:
            file = f"state_{index}"
            weights = {"file": file, "names": list(call.case.state), "in_place": call.manner.in_place}
            exchange.save(folder, file, list(call.case.state.values()))
        loaded[call.manner.module] = call.case
        entries.append(
            {
                "inputs": f"inputs_{index}",
                "weights": weights,
                "reuse": call.reuse,
                "silent": call.silent,
                "tuning": False,
                "patience": call.patience,
                **asdict(call.manner),
                "outputs": [
                    {"shape": list(leaf.expected.shape), "dtype": str(leaf.dtype).removeprefix("torch.")}
                    for leaf in call.case.leaves
                ],
                "seed": call.case.forward_seed,
            }
        )
    return entries
