"""The snippets on checkpoints, steering and own nodes run as they stand, and print no warning of LangGraph's."""

import json
import os
import subprocess
import sys

from tests.docs.test_pages import blocks
from tests.graph.scripted import REFERENCE, kernel
from tests.paths import IMPORTABLE, ROOT

RUN = """
import functools, json, sys, warnings
import egg_graph
from tests.graph.scripted import ScriptedEvaluator, ScriptedTeam, kernel

warnings.simplefilter("error")
team = ScriptedTeam([kernel("ok", 9)], worth=[False])
parts = {"team": team, "evaluator": ScriptedEvaluator(), "principles": ()}
egg_graph.build_egg_graph = functools.partial(egg_graph.build_egg_graph, **parts)
for block in json.load(sys.stdin):
    exec(compile(block, "snippet", "exec"), {"kernel": kernel})
"""
README = [block for block in blocks(ROOT / "README.md", "python") if "InMemorySaver" in block]
PAGE = [block for block in blocks(ROOT / "docs/embedding.md", "python") if "build_egg_graph" in block]
CHECKS = [
    'assert graph.get_state(config).values["kernel"] == kernel("ok", 9)',
    "assert graph.checkpointer is not None",
    'assert result["kernel"] == graph.get_state(config).values["kernel"] == kernel("ok", 9)',
    'assert result["kernel"] == kernel("ok", 3) and graph.get_state(config).next == ("conclude",)',
    'assert graph.invoke({"reference": "my_module.py", "ticket": "K-7"})["ticket"] == "K-7: scripted"',
]


def test_they_run_without_a_warning(tmp_path):
    assert len(README) == 1 and len(PAGE) == 5, "a block is new, or gone"
    for name, text in {"my_module.py": REFERENCE, "mine.py": kernel("ok", 3)}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "softmax.py").write_text(REFERENCE)
    snippets = [f"{block}\n{check}\n" for block, check in zip([*README, *PAGE[1:]], CHECKS, strict=True)]
    environment = {k: v for k, v in os.environ.items() if k != "LANGGRAPH_STRICT_MSGPACK"} | {"PYTHONPATH": IMPORTABLE}
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(snippets),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
