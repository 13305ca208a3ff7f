"""The Team protocol, and how a `model=` argument becomes a team."""

import re
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from egg_graph.evaluator.protocol import Profiling
from egg_graph.schema import (
    ROLES,
    Analysis,
    AnalystBrief,
    BadInput,
    CoderBrief,
    DebuggerBrief,
    Diagnosis,
    Draft,
    KernelTask,
)

WORD = re.compile(r"[^\s,]+(?:,wait=[^\s,]+)?")
"""One `NAME` or `ROLE=NAME` of several in one text; only a handoff's name holds a comma."""


@runtime_checkable
class Team(Protocol):
    """Plays analyst, coder and debugger. Each role answers from its brief alone and keeps no state between calls.

    A role may be an `async def`. One that is not runs in a thread under `ainvoke` and `astream`, unless the team has an
    asynchronous twin of it (`aanalyze`, `awrite`, `adebug`).

    A team whose answers cost calls of a model says so by an attribute `calls_models = True`. No call is made before the
    embedded expert's kernel is judged, and none for hardware tuning that nothing times; `Context` has a knob for each.
    One that makes nothing of profiling metrics may say so by `reads_metrics = False`: no kernel is profiled again for
    it. One whose later stages plan nothing but sweeps says so by `one_sweep = True`: where kernels are timed, all knobs
    are swept together then, unless `Context.sweep` says otherwise. One whose drafts of one brief are always the same
    says so by `drafts_alike = True`: none are written side by side then. Of any other team `write` is called from
    several threads at once where `Context.width` is more than 1.
    """

    name: str

    def analyze(self, brief: AnalystBrief) -> Analysis | Awaitable[Analysis]:
        """Find the bottleneck of `brief.kernel` and plan one optimization, or say that none is worth it."""
        ...

    def write(self, brief: CoderBrief) -> Draft | Awaitable[Draft]:
        """Write a module in `brief.mode`: seed, optimize (follow `brief.analysis`) or repair (`brief.diagnosis`)."""
        ...

    def debug(self, brief: DebuggerBrief) -> Diagnosis | Awaitable[Diagnosis]:
        """Name the root cause of the failure in `brief.evaluation`."""
        ...


def plan_refusal(team: Team) -> str:
    """Why this team does not take a person's plan, its attribute `no_plan`; empty where it has none."""
    return str(getattr(team, "no_plan", ""))


def reads_metrics(team: object) -> bool:
    """Whether profiling metrics are any use to this team, its attribute `reads_metrics`; they are unless it says no."""
    return bool(getattr(team, "reads_metrics", True))


def when_to_profile(wanted: Profiling, player: object) -> Profiling:
    """Return when this machine's evaluator profiles: at every better kernel, or finalists alone.

    Args:
        wanted: what the knob `profile` says.
        player: the team, or the model that plays it; None for the embedded expert.
    """
    if wanted and not (player is not None and reads_metrics(player)):
        return "finalists"
    return wanted


def wants_one_sweep(team: Team) -> bool:
    """Whether all knobs of this team's kernels are best swept together, its attribute `one_sweep`; most have none."""
    return bool(getattr(team, "one_sweep", False))


def get_ready(team: Team, task: KernelTask) -> None:
    """Let a team begin what takes seconds beside the task's baseline, its method `get_ready`; most have none."""
    if ready := getattr(team, "get_ready", None):
        ready(task)


def calls_models(model: Any) -> bool:
    """Whether the team that a `model=` argument stands for costs calls of a model; a Team says so by `calls_models`."""
    told = getattr(model, "calls_models", None)
    return model is not None and (not isinstance(model, Team) if told is None else bool(told))


def check_width(team: Team, width: int) -> None:
    """Refuse drafts side by side that would all be the same, and models that no draft would be written by.

    Raises:
        BadInput: if there are such.
    """
    if width > 1 and getattr(team, "drafts_alike", False):
        raise BadInput(f"width {width}: the drafts of {team.name} would all be the same; give a chat model, or width 1")
    coders = int(getattr(team, "coders", 1))
    if coders > width:
        raise BadInput(
            f"the coder has {coders} models, which draft side by side: give --width {coders} (width={coders}) or more, "
            "or one model"
        )


def model_prices(team: Team, folder: str | None) -> dict[str, tuple[str, Any]]:
    """Model and price of each role (see `ModelTeam.prices`); nothing of a team that tells none.

    Raises:
        BadInput: if the user's own prices are wrong.
    """
    ask = getattr(team, "prices", None)
    return {} if ask is None else dict(ask(folder))


def check_model(model: Any) -> None:
    """Refuse a `model=` argument that can never become a team.

    Raises:
        BadInput: if `model` is an empty name, a mapping that lacks a role or has an unknown one, or of another type
            altogether.
    """
    if isinstance(model, Mapping):
        unknown, missing = set(model) - set(ROLES), [role for role in ROLES if role not in model]
        if unknown or missing:
            wrong = f"unknown role {sorted(map(str, unknown))[0]!r}" if unknown else f"no model for the {missing[0]}"
            raise BadInput(f"model={dict(model)!r}: {wrong}; map each of {', '.join(ROLES)} to a model")
        for role, given in model.items():
            for one in each_model(given) if role == "coder" and given else [given]:
                check_model(one)
    elif isinstance(model, str):
        if not model.strip():
            raise BadInput(
                "model='' names no model; pass a name such as 'openai:gpt-5', or None for the embedded expert"
            )
    elif not (model is None or isinstance(model, Team) or hasattr(model, "invoke")):
        raise BadInput(
            f"model={model!r}: pass a chat model, a name such as 'openai:gpt-5', a mapping role -> model, "
            "a Team, or None for the embedded expert"
        )


def read_models(names: Sequence[str], otherwise: str | None = None) -> str | dict[str, Any] | None:
    """Make a `model=` argument of words: `NAME` for all roles, `ROLE=NAME` for one.

    The coder may have several, for drafts side by side: `coder=NAME` more than once.

    Args:
        names: the words, such as `["openai:gpt-5", "coder=anthropic:claude-opus-5"]`.
        otherwise: such words in one text, separated by commas or spaces, that hold where `names` says nothing. What
            ends with `,wait=seconds` is one word.

    Returns:
        A name, a mapping from each role to a name (of the coder also to a list of names), or None where nothing is
        said.

    Raises:
        BadInput: if a role is unknown, named twice, or has no model.
    """
    roles: dict[str, list[str]] = {}
    for words in (WORD.findall(otherwise or ""), names):
        roles |= _read_words(words)
    (everyone,) = roles.pop("", [None])
    if not roles:
        return everyone
    missing = [role for role in ROLES if role not in roles]
    if everyone is None and missing:
        raise BadInput(f"no model for the {missing[0]}: add {missing[0]}=NAME, or a NAME for all other roles")
    return {role: _one_or_all(roles.get(role, [everyone or ""])) for role in ROLES}


def each_model(given: Any) -> list[Any]:
    """What plays one role, as a list: the coder may have several models."""
    return list(given) if isinstance(given, list | tuple) else [given]


def model_names(model: Any) -> list[str]:
    """The names in a `model=` argument, role by role; a chat model or team that is an object has none."""
    given = model.values() if isinstance(model, Mapping) else [model]
    return [one.strip() for ones in given for one in each_model(ones) if isinstance(one, str)]


def name_models(model: str | Mapping[str, Any] | None) -> str:
    """Say who plays the team, as `read_models` reads it."""
    if isinstance(model, Mapping):
        return ", ".join(f"{role}={name}" for role, given in model.items() for name in each_model(given))
    return model or "the embedded expert"


def _one_or_all(names: list[str]) -> str | list[str]:
    return names[0] if len(names) == 1 else names


def _read_words(words: Sequence[str]) -> dict[str, list[str]]:
    """Models by role; the role "" stands for all others."""
    roles: dict[str, list[str]] = {}
    for word in words:
        before, equals, after = word.strip().partition("=")
        names_role = equals and ":" not in before  # `handoff:folder,wait=0` does not
        role, name = (before, after) if names_role else ("", word.strip())
        if names_role and role not in ROLES:
            raise BadInput(f"model {word!r}: no role {role!r}; the roles are {', '.join(ROLES)}")
        if role in roles and (role != "coder" or name in roles[role]):
            raise BadInput(f"model {word!r}: the {role or 'team'} has the model {roles[role][0]!r} already")
        if not name:
            raise BadInput(f"model {word!r}: the name is empty; write for example {word}openai:gpt-5")
        roles.setdefault(role, []).append(name)
    return roles


def resolve_team(model: Any = None) -> Team:
    """Make the team that a `model=` argument stands for.

    Args:
        model: a Team, returned as it is; a chat model, its name, or a mapping role -> model, for a team that chat
            models play; None for the embedded expert, which needs no model.

    Raises:
        BadInput: if it is none of these.
    """
    check_model(model)
    if isinstance(model, Team):
        return model
    if model is None:
        from egg_graph.expert import EmbeddedExpert

        return EmbeddedExpert()
    from egg_graph.agents import ModelTeam

    return ModelTeam(model)


def playbook_guidance(operators: Sequence[str]) -> dict[str, str]:
    """Return the guidance of the expert's playbooks that know some of these ATen operators, by playbook."""
    from egg_graph.expert import guidance_for

    return guidance_for(operators)
