"""The analyst: code and metrics become a bottleneck, a root cause and a plan, or "not worth it" (paper, App. E.3)."""

from typing import Any, get_args

from egg_graph.agents.chat_role import ChatRole, Template, in_every_mode
from egg_graph.agents.parsing import Reply, Unreadable, read_object, trim_words
from egg_graph.schema import Analysis, Brief, Category, Expectation

_FORMAT = "Return only the JSON object that the output format asks for, with all its keys."
_WORDS = {"bottleneck": 60, "root_cause": 80, "plan": 400}
"""Most words of each text: at least twice what the prompt asks for. Longer texts would crowd the later prompts."""

_ALIASES: dict[str, Category] = {
    "fusion": "operator_fusion",
    "kernel_fusion": "operator_fusion",
    "algorithm": "algorithm_replacement",
    "algorithmic_replacement": "algorithm_replacement",
    "mapping": "parallel_mapping",
    "tiling": "tensor_tiling",
    "memory": "memory_access",
    "memory_optimization": "memory_access",
}


def _read(reply: Reply, brief: Brief) -> Analysis:
    known = {principle.id for principle in brief.principles}
    answer = read_object(reply, wanted=("worth_optimizing", "bottleneck", "plan", "category"))
    worth = _truth(answer.get("worth_optimizing"))
    plan = _text(answer, "plan", "implementation_plan", "optimization_plan")
    bottleneck = _text(answer, "bottleneck", "performance_diagnosis", "diagnosis")
    if worth is None:
        raise Unreadable('the key "worth_optimizing" is missing or neither true nor false', _FORMAT)
    if worth and not plan:
        raise Unreadable('"worth_optimizing" is true but there is no "plan"', _FORMAT)
    category = _category(_text(answer, "category", "optimization_category"))
    if worth and category in (None, "none"):
        raise Unreadable(f'"category" is none of {", ".join(get_args(Category))}', "Pick exactly one. " + _FORMAT)
    named = answer.get("principles")
    return Analysis(
        worth_optimizing=worth,
        bottleneck=trim_words(bottleneck or "not named", _WORDS["bottleneck"]),
        root_cause=trim_words(_text(answer, "root_cause", "cause"), _WORDS["root_cause"]),
        category=(category or "none") if worth else "none",
        plan=trim_words(plan, _WORDS["plan"]) if worth else "",
        by="sweep" if worth and _text(answer, "by").lower() == "sweep" else "rewrite",
        expected=_expectation(answer.get("expected")) if worth else None,
        principles=tuple(p for p in named if isinstance(p, str) and p in known) if isinstance(named, list) else (),
    )


def _not_worth_optimizing(problem: str, brief: Brief) -> Analysis:
    return Analysis(
        worth_optimizing=False,
        bottleneck="unknown: the analyst gave no usable answer",
        root_cause=problem,
    )


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "yes": True, "false": False, "no": False}.get(str(value).strip().lower())


def _text(answer: dict[str, Any], *keys: str) -> str:
    """The first of these keys that holds text; a list of steps becomes one text."""
    for key in keys:
        value = answer.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if isinstance(value, list) and value:
            return " ".join(f"{number}. {step}" for number, step in enumerate(value, start=1))
    return ""


def _category(name: str) -> Category | None:
    key = "_".join(name.lower().replace("-", " ").replace("_", " ").split())
    if key in get_args(Category):
        return key  # type: ignore[return-value]
    return _ALIASES.get(key)


def _expectation(value: Any) -> Expectation | None:
    """The predicted effect; None where it has another form than the prompt asks for, which is not worth a re-ask."""
    if not isinstance(value, dict):
        return None
    metric = str(value.get("metric", "")).strip()
    direction = {"down": "down", "decrease": "down", "lower": "down", "up": "up", "increase": "up", "higher": "up"}.get(
        str(value.get("direction", "")).strip().lower()
    )
    return Expectation.model_validate({"metric": metric, "direction": direction}) if metric and direction else None


ANALYST = ChatRole(
    name="analyst",
    templates=in_every_mode(Template("analyst.j2", needs=("kernel", "evaluation"))),
    read=_read,
    fallback=_not_worth_optimizing,
)
