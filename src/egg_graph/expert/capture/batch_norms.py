"""Write batch norms in train mode out in primitives, after the export.

A deep network has a hundred of them. Each comes to twenty operators, and PyTorch would trace every one at every shape;
here they are made of plain data. The formulas are those of `decompose.norms.batch_norm`.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import JsonValue

from egg_graph.expert.capture.merge import ShapeCapture
from egg_graph.expert.capture.rewrite import renamed

KEPT = "aten._native_batch_norm_legit_functional.default"
ANSWER, MEAN, VAR = 0, 3, 4
"""What a forward reads of the operator: the answer, and the running statistics with this batch in them."""


def write_out_batch_norms(capture: ShapeCapture) -> None:
    """Replace every batch norm that the export kept whole, and what reads its results, in place."""
    tensors = {entry["name"]: entry for entry in (*capture.placeholders, *capture.nodes)}
    read: dict[str, dict[int, str]] = {}
    for node in capture.nodes:
        if node["op"] == "getitem" and tensors[node["args"][0]["node"]]["op"] == KEPT:
            read.setdefault(node["args"][0]["node"], {})[node["args"][1]] = node["name"]
    names: dict[str, str] = {}
    nodes: list[dict[str, Any]] = []
    count = 0
    for node in capture.nodes:
        results = read.get(node["name"], {})
        if node["op"] == KEPT and node["args"][5] is True and set(results) <= {ANSWER, MEAN, VAR}:
            prefix = f"norm_{count}" if count else "norm"
            while any(name.startswith(f"{prefix}_") or name == prefix for name in tensors):
                prefix += "_"
            made = list(_written_out(prefix, renamed(node["args"], names), tensors))
            tensors.update((entry["name"], entry) for entry in made)
            wanted = {ANSWER: prefix, MEAN: f"{prefix}_running_mean", VAR: f"{prefix}_running_var"}
            names.update({name: wanted[which] for which, name in results.items()})
            nodes += _needed(made, {wanted[which] for which in results})
            count += 1
        elif node["name"] not in names:
            nodes.append({**node, "args": renamed(node["args"], names), "kwargs": renamed(node["kwargs"], names)})
    capture.nodes = nodes
    capture.outputs = renamed(capture.outputs, names)
    capture.mutations = {buffer: names.get(name, name) for buffer, name in capture.mutations.items()}


def _written_out(prefix: str, args: list[Any], tensors: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the nodes of one batch norm over x [samples, channels, …], in fp32 throughout."""
    x, weight, bias, mean, var, _, momentum, eps = args
    like = tensors[x["node"]]
    rank, channels = len(like["shape"]), like["shape"][1]
    dims = [d for d in range(rank) if d != 1]
    full = {"shape": like["shape"], "stride": like["stride"]}
    line = {"shape": (channels,), "stride": (1,)}
    apart = {"shape": (channels, *(1 for _ in dims[1:])), "stride": tuple(1 for _ in range(rank - 1))}

    def node(part: str, op: str, given: list[JsonValue], form: dict[str, Any], **kwargs: JsonValue) -> dict[str, Any]:
        name = f"{prefix}_{part}" if part else prefix
        rest: dict[str, Any] = {"kwargs": kwargs, "defaults": [], "keyword_defaults": {}, "dtype": "float32"}
        return {"name": name, "op": f"aten.{op}", "args": given, **rest, **form}

    def made(part: str) -> JsonValue:
        return {"node": f"{prefix}_{part}"}

    aside: JsonValue = [-1, *(1 for _ in dims[1:])]
    yield node("mean", "mean.dim", [x, list(dims)], line, dtype={"dtype": "float32"})
    yield node("var", "var.correction", [x, list(dims)], line, correction=0)
    yield node("shifted", "add.Tensor", [made("var"), eps], line)
    yield node("rstd", "rsqrt.default", [made("shifted")], line)
    yield node("scale", "mul.Tensor", [made("rstd"), weight], line)
    yield node("middle", "view.default", [made("mean"), aside], apart)
    yield node("centered", "sub.Tensor", [x, made("middle")], full)
    yield node("factor", "view.default", [made("scale"), aside], apart)
    yield node("scaled", "mul.Tensor", [made("centered"), made("factor")], full)
    yield node("shift", "view.default", [bias, aside], apart)
    yield node("", "add.Tensor", [made("scaled"), made("shift")], full)
    yield node("unbiased", "var.correction", [x, list(dims)], line, correction=1)
    for running, batch, part in ((mean, "mean", "mean"), (var, "unbiased", "var")):
        yield node(f"old_{part}", "mul.Tensor", [running, 1 - momentum], line)
        yield node(f"new_{part}", "mul.Tensor", [made(batch), momentum], line)
        yield node(f"running_{part}", "add.Tensor", [made(f"old_{part}"), made(f"new_{part}")], line)


def _needed(made: list[dict[str, Any]], wanted: set[str]) -> list[dict[str, Any]]:
    """Return the nodes from which the wanted ones follow."""
    wanted, found = set(wanted), []
    for node in reversed(made):
        if node["name"] in wanted:
            found.append(node)
            wanted.update(arg["node"] for arg in node["args"] if isinstance(arg, dict))
    return found[::-1]
