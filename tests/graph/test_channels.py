"""Channels are copied as LangGraph's own, and a run leaves nothing behind that only the garbage collector finds."""

import gc

import pytest
from langgraph.channels import DeltaChannel, EphemeralValue, LastValue

from egg_graph import Context, build_egg_graph
from egg_graph.channels import Deltas, quickly_copied
from egg_graph.state import LastDelta, merge_attempts
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, StatelessTeam, kernel

PAIRS = [
    pytest.param(quickly_copied(LastValue(str, "kernel")), LastValue(str, "kernel"), id="value"),
    pytest.param(quickly_copied(EphemeralValue(str, False)), EphemeralValue(str, False), id="signal"),
    pytest.param(Deltas(merge_attempts), DeltaChannel(merge_attempts), id="deltas"),
    pytest.param(LastDelta(), DeltaChannel(LastDelta().reducer, type(None), snapshot_frequency=10), id="last delta"),
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_a_copy_is_what_langgraph_makes_and_leaves_the_original_alone(ours, theirs):
    assert isinstance(ours, type(theirs)) and type(ours) is not type(theirs)
    value = [] if isinstance(ours, DeltaChannel) else "text"
    for channel in (ours, theirs):
        channel.key = "key"
        assert channel.copy().is_available() is False
        channel.update([value])
    twin, other = ours.copy(), theirs.copy()
    assert type(twin) is type(ours) and twin is not ours and twin == ours
    slots = [name for kind in type(theirs).__mro__ for name in getattr(kind, "__slots__", ())]
    assert {name: getattr(twin, name) for name in slots} == {name: getattr(other, name) for name in slots}
    if isinstance(ours, EphemeralValue):
        assert twin.update([]) and not twin.is_available() and ours.get() == value


def test_every_channel_of_the_graph_is_copied_quickly():
    kinds = {type(channel) for channel in build_egg_graph().channels.values()}
    assert not kinds & {LastValue, EphemeralValue, DeltaChannel}


def test_a_run_leaves_nothing_to_the_garbage_collector():
    """What stands in a cycle stays until it comes: of a long run with large kernels that would be all of them."""
    parts = {"team": StatelessTeam([kernel("ok", 99 - n) for n in range(30)]), "evaluator": ScriptedEvaluator()}
    egg = build_egg_graph(**parts, principles=())
    context = Context(target="h100", stages=("algorithmic_structure",))
    egg.invoke({"reference": REFERENCE}, context=context)
    gc.collect()
    gc.disable()
    try:
        left = []
        for _ in range(3):  # what ended beside one of them, of another test, is not its own
            egg.invoke({"reference": REFERENCE}, context=context)
            left.append(gc.collect())
        assert min(left) < 100
    finally:
        gc.enable()
