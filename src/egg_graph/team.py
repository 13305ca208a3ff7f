"""The Team protocol, and how a `model=` argument becomes a team."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from egg_graph.schema import ROLES, Analysis, BadInput, Brief, Diagnosis, Draft


@runtime_checkable
class Team(Protocol):
    """Plays analyst, coder and debugger. Each role answers from its brief alone and keeps no state between calls.

    A role may be an `async def`. One that is not runs in a thread under `ainvoke` and `astream`, unless the team has an
    asynchronous twin of it (`aanalyze`, `awrite`, `adebug`).
    """

    name: str

    def analyze(self, brief: Brief) -> Analysis | Awaitable[Analysis]:
        """Find the bottleneck of `brief.kernel` and plan one optimization, or say that none is worth it."""
        ...

    def write(self, brief: Brief) -> Draft | Awaitable[Draft]:
        """Write a module in `brief.mode`: seed, optimize (follow `brief.analysis`) or repair (`brief.diagnosis`)."""
        ...

    def debug(self, brief: Brief) -> Diagnosis | Awaitable[Diagnosis]:
        """Name the root cause of the failure in `brief.evaluation`."""
        ...


def check_model(model: Any) -> None:
    """Refuse a `model=` argument that can never become a team.

    Raises:
        BadInput: if `model` is an empty name, a mapping with an unknown role, or of another type altogether.
    """
    if isinstance(model, Mapping):
        if not model or (unknown := set(model) - set(ROLES)):
            wrong = f"unknown role {sorted(map(str, unknown))[0]!r}" if model else "it is empty"
            raise BadInput(f"model={dict(model)!r}: {wrong}; map one or more of {', '.join(ROLES)} to a model")
        for one in model.values():
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
