"""Every end of a child process has a name."""

import pytest

from egg_graph.evaluator.host.fork_server import ChildExit
from egg_graph.evaluator.host.outcome import finding_of


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (ChildExit("signal", 11, 1.0, None, ""), "crashed"),
        (ChildExit("signal", 9, 1.0, None, ""), "crashed"),
        (ChildExit("memory", 9, 1.0, None, ""), "memory_exceeded"),
        (ChildExit("processes", 9, 1.0, None, ""), "too_many_processes"),
        (ChildExit("killed", 9, 1.0, None, ""), "infrastructure"),
        (ChildExit("timeout", 0, 1.0, {"answer": {}}, 'File "/x/candidate.py", line 7 in forward'), "timeout"),
        (ChildExit("exit", 0, 1.0, None, ""), "exited"),
        (ChildExit("exit", 3, 1.0, {"answer": {}}, ""), "exited"),
        (ChildExit("exit", 0, 1.0, {"answer": {}}, ""), None),
    ],
)
def test_every_end_of_a_child_has_its_name(end: ChildExit, kind: str | None) -> None:
    finding = finding_of(end, limit=5)
    assert (finding.kind if finding else None) == kind
    if kind == "timeout":
        assert finding is not None
        assert finding.where == "line 7, in forward"
