"""The knobs: checked, described, and found in whatever the runtime carries."""

import asyncio
import copy
import pickle
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace

import pytest

from egg_graph import BadInput, Context, build_egg_graph
from egg_graph.context import ATTEMPTS_CEILING, recursion_limit, resolve
from tests.graph.scripted import REFERENCE, ScriptedEvaluator


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("precision", "fp8"),
        ("device", "tpu"),
        ("max_attempts", 0),
        ("max_attempts", ATTEMPTS_CEILING + 1),
        ("max_repairs", -1),
        ("max_seconds", 0),
        ("stages", ("algorithmic",)),
        ("tune", "perhaps"),
    ],
)
def test_wrong_values_are_refused_in_one_line(knob, value):
    with pytest.raises(BadInput, match=rf"^{knob} must be .*, not ") as error:
        Context(**{knob: value})
    assert "\n" not in str(error.value)


def test_an_unknown_knob_is_refused_with_those_there_are():
    with pytest.raises(BadInput, match=r"^no knob 'max_atempts'; the knobs are precision, .*knowledge_dir$"):
        Context(max_atempts=3)
    mine = Context(max_attempts=3)
    assert copy.deepcopy(mine) == pickle.loads(pickle.dumps(mine)) == replace(Context(), max_attempts=3) == mine


def test_values_as_json_sends_them():
    assert Context(stages=["tensor_tiling"]).stages == ("tensor_tiling",)
    assert Context(max_seconds=5).max_seconds == 5.0


def test_schema_has_descriptions_and_choices():
    schema = build_egg_graph(evaluator=ScriptedEvaluator()).get_context_jsonschema()
    knobs = schema["properties"]
    assert set(knobs) == {f.name for f in fields(Context)}
    assert all(knob["description"] and "default" in knob for knob in knobs.values())
    assert knobs["precision"]["enum"] == ["ieee", "tf32", "tf32_truncated", "bf16", "fp16"]
    assert knobs["device"]["enum"] == ["auto", "gpu", "none"]
    assert len(knobs["stages"]["items"]["enum"]) == 4
    assert "required" not in schema


def test_schemas_of_input_and_output():
    graph = build_egg_graph(evaluator=ScriptedEvaluator())
    given, answered = graph.get_input_jsonschema(), graph.get_output_jsonschema()
    assert set(given["properties"]) == {"reference", "name", "kernel", "plan"} and given["required"] == ["reference"]
    wanted = {"status", "verdict", "kernel", "best", "evaluation", "profile", "diagnosis", "analysis", "attempts"}
    assert wanted <= set(answered["properties"])


def test_resolving():
    @dataclass
    class Foreign:
        tenant: str = "a"
        egg: object = None

    mine = Context(max_attempts=3)
    assert resolve(mine) is mine
    assert resolve(None) == resolve(Foreign()) == resolve({"tenant": "a"}) == Context()
    assert resolve(Foreign(egg=mine)) is mine


@pytest.mark.parametrize("knobs", [Context(max_attempts=3, tune=False), {"max_attempts": 3, "tune": False}])
@pytest.mark.parametrize("carry", [lambda egg: {"egg": egg}, lambda egg: SimpleNamespace(egg=egg)])
def test_resolving_what_a_parent_carries(carry, knobs):
    assert resolve(carry(knobs)) == Context(max_attempts=3, tune=False)
    assert resolve({"max_attempts": 3, "tune": False}) == Context(max_attempts=3, tune=False)


@pytest.mark.parametrize("nothing", [None, {}, {"egg": None}, {"egg": {}}, SimpleNamespace(egg=None), Context()])
def test_a_context_that_sets_no_knob_counts_as_none(nothing):
    assert resolve(nothing) == Context()
    assert resolve(nothing, {"knobs": {"max_attempts": 3}}) == Context(max_attempts=3)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"max_atempts": 3}, "no knob 'max_atempts'; .*'egg'"),
        ({"tenant": "a", "max_attempts": 3}, "no knob 'tenant'; .*'egg'"),
        ({"max_attempts": 0}, "max_attempts must be"),
        ({"egg": {"max_atempts": 3}}, "no knob 'max_atempts'"),
        ({"egg": {"precision": "fp8"}}, "precision must be"),
        ({"egg": 7}, "egg in the context is 7"),
        (SimpleNamespace(egg="fast"), "egg in the context is 'fast'"),
        (SimpleNamespace(egg={7: 8}), "no knob '7'"),
        ("fast", "the context is 'fast'"),
        ([("max_attempts", 3)], "the context is "),
        (3, "the context is 3"),
    ],
)
def test_a_context_that_cannot_be_read_is_refused_in_one_line(context, message):
    with pytest.raises(BadInput, match=message) as error:
        resolve(context)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("knobs", "says"),
    [({"max_atempts": 3}, "no knob 'max_atempts'; the knobs are"), ({"max_attempts": 0}, "max_attempts")],
)
def test_a_call_refuses_a_wrong_mapping_of_knobs_before_its_first_step(knobs, says):
    graph = build_egg_graph(evaluator=ScriptedEvaluator())
    for call in (
        lambda: graph.invoke({"reference": REFERENCE}, context=knobs),
        lambda: asyncio.run(graph.ainvoke({"reference": REFERENCE}, context=knobs)),
    ):
        with pytest.raises(BadInput, match=says):
            call()


def test_the_recursion_limit_covers_the_largest_budget():
    graph = build_egg_graph(evaluator=ScriptedEvaluator())
    assert graph.config["recursion_limit"] == recursion_limit() > 3 * ATTEMPTS_CEILING
