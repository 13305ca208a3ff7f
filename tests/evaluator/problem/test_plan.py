"""What the plan of calls decides: which call meets what."""

from egg_graph.evaluator.problem.plan import interpreter_calls
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Hardware, KernelTask
from tests.graph.scripted import REFERENCE


def test_the_first_call_meets_poison_and_later_ones_meet_leftovers_too(h200: Hardware) -> None:
    """An element that nobody wrote is named in the first call, whatever the seed, and not only told as wrong."""
    task = KernelTask(name="relu", reference=REFERENCE, target=h200)
    for seed in range(4):
        problem = Problem(task, seed)
        first, *later = interpreter_calls(problem, problem.family_shape, everything=True)
        assert not first.manner.leftovers
        assert {call.manner.leftovers for call in later} == {True, False}
