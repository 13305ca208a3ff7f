"""What one kernel has passed and another has not."""

from egg_graph.schema.evaluation import Evaluation

REDUCED = frozenset({"shrunk", "awkward"})
"""Checks at shapes that a kernel may refuse, and still be right where it is used."""
ALIGNED = "aligned"
"""How the names of checks begin that stand in for those at refused shapes."""


def lost_checks(new: Evaluation, old: Evaluation) -> set[str]:
    """Names of the checks that `old` passed and `new` did not.

    A kernel that is right at odd shapes loses nothing by not being tried at aligned ones.
    """
    passed = _passed(new)
    return {name for name in _passed(old) - passed if not (passed & REDUCED and name.startswith(ALIGNED))}


def only_refuses(new: Evaluation, lost: set[str]) -> bool:
    """Whether all lost checks are at reduced shapes, and the kernel was right at another one."""
    return lost <= REDUCED and any(name in REDUCED or name.startswith(ALIGNED) for name in _passed(new))


def _passed(evaluation: Evaluation) -> set[str]:
    return {check.name for check in evaluation.checks if check.passed}
