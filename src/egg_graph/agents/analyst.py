"""The analyst: code and metrics become a bottleneck, a root cause and a plan, or "not worth it" (paper, App. E.3)."""

import re
from typing import Any, Literal, get_args

from egg_graph.agents.chat_role import ChatRole, Template, in_every_mode
from egg_graph.agents.parsing import Reply, Unreadable, as_truth, first_text, names_in, read_object, trim_words
from egg_graph.schema import Analysis, Brief, Category, Expectation, Knob

_FORMAT = "Return only the JSON object that the output format asks for, with all its keys."
_WORDS = {"bottleneck": 60, "root_cause": 80, "plan": 400}
"""Most words of each text: at least twice what the prompt asks for. Longer texts would crowd the later prompts."""
_LARGEST = 1e15
"""Largest number that a knob can be set to."""

_ALIASES: dict[str, Category] = {
    **{name: name for name in get_args(Category)},
    "fusion": "operator_fusion",
    "kernel_fusion": "operator_fusion",
    "algorithm": "algorithm_replacement",
    "algorithmic_replacement": "algorithm_replacement",
    "mapping": "parallel_mapping",
    "tiling": "tensor_tiling",
    "memory": "memory_access",
    "memory_optimization": "memory_access",
}
_Way = Literal["rewrite", "sweep", "config"]
_WAYS: dict[str, _Way] = {name: name for name in get_args(_Way)}
_DIRECTIONS = {"down": "down", "decrease": "down", "lower": "down", "up": "up", "increase": "up", "higher": "up"}


def _read(reply: Reply, brief: Brief) -> Analysis:
    known = {principle.id for principle in brief.principles}
    answer, mended = read_object(reply, wanted=("worth_optimizing", "bottleneck", "plan", "category"))
    worth = as_truth(answer.get("worth_optimizing"))
    plan = first_text(answer, "plan", "implementation_plan", "optimization_plan")
    bottleneck = first_text(answer, "bottleneck", "performance_diagnosis", "diagnosis")
    if worth is None:
        raise Unreadable('the key "worth_optimizing" is missing or neither true nor false', _FORMAT)
    if worth and not plan:
        raise Unreadable('"worth_optimizing" is true but there is no "plan"', _FORMAT)
    categories = names_in(first_text(answer, "category", "optimization_category"), list(_ALIASES))
    if worth and (not categories or _ALIASES[categories[0]] == "none"):
        raise Unreadable(f'"category" is none of {", ".join(get_args(Category))}', "Pick exactly one. " + _FORMAT)
    named = answer.get("principles")
    way, values, told = _way(answer if worth else {}, brief)
    return Analysis(
        worth_optimizing=worth,
        bottleneck=trim_words(bottleneck or "not named", _WORDS["bottleneck"]),
        root_cause=trim_words(first_text(answer, "root_cause", "cause"), _WORDS["root_cause"]),
        category=_ALIASES[categories[0]] if worth else "none",
        plan=trim_words(plan, _WORDS["plan"]) if worth else "",
        by=way,
        config=values,
        expected=_expectation(answer.get("expected")) if worth else None,
        principles=tuple(p for p in named if isinstance(p, str) and p in known) if isinstance(named, list) else (),
        alternatives=_alternatives(answer.get("alternatives"), brief) if worth and way == "rewrite" else (),
        mended=(*mended, *told),
    )


def _alternatives(value: Any, brief: Brief) -> tuple[str, ...]:
    """Further plans for the drafts that are written side by side, one for each at most."""
    plans = [plan for plan in value if isinstance(plan, str) and plan.strip()] if isinstance(value, list) else []
    return tuple(trim_words(plan, _WORDS["plan"]) for plan in plans[: brief.drafts - 1])


def _not_worth_optimizing(problem: str, brief: Brief) -> Analysis:
    return Analysis(
        worth_optimizing=False,
        bottleneck="unknown: the analyst gave no usable answer",
        root_cause=problem,
    )


def _way(answer: dict[str, Any], brief: Brief) -> tuple[_Way, dict[str, Knob], tuple[str, ...]]:
    """How the plan is to be carried out, the values it changes, and what of them was dropped.

    Where none of the values can be changed, the coder follows the plan.
    """
    said = first_text(answer, "by")
    ways = names_in(said, list(_WAYS))
    if not ways:
        return "rewrite", {}, (f'"by": {said[:60]!r} read as rewrite',) if said else ()
    if ways[0] == "sweep" and brief.kernel is not None and not brief.kernel.space.get(brief.stage):
        return "rewrite", {}, ('"by": "sweep" where SPACE has no knob of this stage, read as rewrite',)
    if ways[0] != "config":
        return _WAYS[ways[0]], {}, ()
    values, dropped = _new_values(answer.get("config"), {} if brief.kernel is None else brief.kernel.config)
    if not values:
        return "rewrite", {}, (*dropped, '"by": "config" without a value that changes, read as rewrite')
    return "config", values, dropped


def _new_values(given: Any, config: dict[str, Knob]) -> tuple[dict[str, Knob], tuple[str, ...]]:
    """The values that change, each of its knob's type, and one line for each that cannot be."""
    if isinstance(given, list):  # the form of the schema
        given = {str(one.get("knob")): one.get("value") for one in given if isinstance(one, dict)}
    values: dict[str, Knob] = {}
    dropped: list[str] = []
    for knob, value in given.items() if isinstance(given, dict) else ():
        if knob not in config:
            dropped.append(f"value dropped: CONFIG has no {str(knob)[:60]!r}")
        elif (new := _of_type(value, config[knob])) is None:
            dropped.append(f"value dropped: {knob} cannot be {str(value)[:60]!r}")
        elif new != config[knob]:
            values[knob] = new
    return values, tuple(dropped)


def _of_type(value: Any, like: Knob) -> Knob | None:
    """The value as what the knob holds now, also where it was given as a text; None where it is no such value."""
    if isinstance(like, bool):
        return as_truth(value)
    if isinstance(like, str):
        return value[:200] if isinstance(value, str) else None
    if isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,15}(\.\d{0,15})?\s*", value):
        value = float(value) if "." in value else int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _LARGEST:
        return None
    return int(value) if value == int(value) and isinstance(like, int) else (value if isinstance(like, float) else None)


def _expectation(value: Any) -> Expectation | None:
    """The predicted effect; None where it has another form than the prompt asks for, which is not worth a re-ask."""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return None
    metric, words = first_text(value, "metric"), re.findall(r"[a-z]+", first_text(value, "direction").lower()[:40])
    direction = next((_DIRECTIONS[word] for word in words if word in _DIRECTIONS), None)
    return (
        Expectation.model_validate({"metric": metric[:120], "direction": direction}) if metric and direction else None
    )


def _object(**properties: Any) -> dict[str, Any]:
    """The schema of an object with all of these keys and no other, as strict endpoints want it."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


_TEXT = {"type": "string"}
_VALUE = {"anyOf": [{"type": kind} for kind in ("integer", "number", "boolean", "string")]}
_KEYS: dict[str, Any] = {
    "worth_optimizing": {"type": "boolean"},
    "bottleneck": _TEXT,
    "root_cause": _TEXT,
    "category": {"type": "string", "enum": list(get_args(Category))},
    "plan": _TEXT,
    "by": {"type": "string", "enum": list(_WAYS)},
    "config": {"type": "array", "items": _object(knob=_TEXT, value=_VALUE)},
    "expected": {
        "anyOf": [_object(metric=_TEXT, direction={"type": "string", "enum": ["down", "up"]}), {"type": "null"}]
    },
    "principles": {"type": "array", "items": _TEXT},
}
_TITLE = {"title": "analysis", "description": "The bottleneck of a kernel, and one plan to optimize it."}
_SCHEMA = {**_TITLE, **_object(**_KEYS)}
WIDE_SCHEMA = {**_TITLE, **_object(**_KEYS, alternatives={"type": "array", "items": _TEXT})}
"""The schema where several coders draft side by side, each from a plan of its own."""

ANALYST = ChatRole(
    name="analyst",
    templates=in_every_mode(Template("analyst.j2", needs=("kernel", "evaluation"))),
    read=_read,
    fallback=_not_worth_optimizing,
    schema=_SCHEMA,
)
