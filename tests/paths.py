"""Where the repository's folders are, and what a child process needs to import from them."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests" / "corpus"
EXAMPLES = ROOT / "examples"
IMPORTABLE = os.pathsep.join(filter(None, [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]))
"""PYTHONPATH of a child process that imports `egg_graph` and `tests`, from wherever this process imports the rest."""


CHILD_SECONDS = 840.0
"""Time limit of a child process that does the work of a whole module of tests [s]: some 100 s on an idle machine."""
UNCOLLECTED = (
    sys.executable,
    "-c",
    "import gc, runpy, sys; gc.disable(); del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')",
)
"""Words before a script and its arguments that run it without garbage collection: a sixth of the time of a process
that imports torch and captures or interprets some dozens of modules."""


def read_source(name: str) -> str:
    """The text of a corpus file below its header, for example of `right/softmax_one_block.py`."""
    text = (CORPUS / name).read_text(encoding="utf-8")
    return text.split("# ///\n", 1)[1] if text.startswith("# /// trick\n") else text
