"""Corpus folders made of literals, and an evaluator whose verdicts are written down."""

from pathlib import Path

from egg_graph.schema import Environment, Evaluation, Finding

REFERENCE = """
import torch
from torch import nn

N = 32


class Model(nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.randn(N, N)]
"""


def make_corpus(folder: Path, **headers: str) -> Path:
    """A folder `corpus` of files with these headers (name -> TOML), beside a folder `problems` with `double`."""
    (folder / "problems").mkdir(exist_ok=True)
    (folder / "problems" / "double.py").write_text(REFERENCE)
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for name, toml in headers.items():
        lines = "\n".join(f"# {line}" for line in toml.strip().splitlines())
        (corpus / f"{name}.py").write_text(f"# /// trick\n{lines}\n# ///\nsource = '{name}'\n")
    return corpus


def header(ident: str, expect: str, **more: str) -> str:
    """A header's TOML."""
    lines = [f'id = "{ident}"', f'name = "{ident} by name"', 'problem = "double"', f"expect = {expect}"]
    return "\n".join([*lines, *(f"{key} = {value}" for key, value in more.items())])


class ScriptedEvaluator:
    """Answers by the candidate's source; a list of answers is gone through one by one."""

    def __init__(self, **verdicts):
        self.verdicts = verdicts
        self.calls = 0

    def environment(self):
        return Environment(machine="a test", torch="2", triton="3", python="3")

    def evaluate(self, task, candidate, *, stage=None, finalist=False):
        self.calls += 1
        name = candidate.source.split("'")[1]
        verdict = self.verdicts[name]
        if isinstance(verdict, list):
            verdict = verdict.pop(0)
        if isinstance(verdict, Exception):
            raise verdict
        status, *kinds = verdict.split()
        findings = tuple(Finding(kind=kind, message=kind) for kind in kinds)
        return Evaluation(candidate="c", task="t", status=status, reason=verdict, findings=findings, seed=7)
