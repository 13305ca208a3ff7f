"""What of a candidate's text is judged and run: no test code, no backports, no optional imports of other packages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from egg_graph.evaluator.gate.backports import without_backports
from egg_graph.evaluator.gate.optional_imports import without_optional_imports
from egg_graph.evaluator.gate.test_code import without_test_code


@dataclass(frozen=True)
class JudgedText:
    """A candidate's text, line by line, and what was left out of it."""

    source: str
    tests: tuple[str, ...]
    """Parts that are test code."""
    backports: tuple[str, ...]
    """Conditions of the parts for an older PyTorch or Triton."""
    imports: tuple[str, ...]
    """Imports that fail where they are reached."""

    @property
    def statement(self) -> str:
        """What was left out, in words."""
        tests = f"not judged, for it is test code: {', '.join(self.tests)}" if self.tests else "no test code"
        old = "".join(f"; not run, for it is for an older library: `if {test}: …`" for test in self.backports)
        return tests + old + "".join(f"; `{line}` fails: no such package is there" for line in self.imports)


@lru_cache(maxsize=32)  # the gate, the folder of each job and the statement ask for the same text
def judged_text(source: str) -> JudgedText:
    """Return what is judged and run of a candidate's source; what is no Python as it is."""
    shorter, tests = without_test_code(source)
    shorter, backports = without_backports(shorter)
    text, imports = without_optional_imports(shorter)
    return JudgedText(text, tests, backports, imports)
