"""How a chat model plays a role: one declaration for each role, one procedure for all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, get_args

from langchain_core.runnables import RunnableConfig

from egg_graph.agents.conversation import converse
from egg_graph.agents.endpoint import model_name
from egg_graph.agents.parsing import Reply
from egg_graph.agents.parts import Prompt
from egg_graph.agents.prompts import Prompts
from egg_graph.agents.requests import ModelChannel
from egg_graph.agents.tokens import estimate_tokens
from egg_graph.schema import BadInput, Brief, Message, Mode, ModelRequest, Role, RoleAnswer

BRIEF_TOKENS = 12_000
"""Most tokens of a prompt, as estimated: its least important parts are left out for it."""
A = TypeVar("A", bound=RoleAnswer)


class Template(NamedTuple):
    """A template of a role, and the fields of the brief that it needs."""

    file: str
    needs: tuple[str, ...] = ()


def in_every_mode(template: Template) -> dict[Mode, Template]:
    """Templates of a role whose prompt does not depend on the mode."""
    return dict.fromkeys(get_args(Mode), template)


@dataclass(frozen=True)
class ChatRole(Generic[A]):
    """One role as a chat model plays it.

    The system prompt also needs `fixed_<name>.j2`, and `_role_<name>.j2`, one sentence about the role.
    """

    name: Role
    templates: Mapping[Mode, Template]
    """The template of each mode in which the role answers."""
    read: Callable[[Reply, Brief], A]
    """Parse a reply. Raises `Unreadable` where the reply cannot be used."""
    fallback: Callable[[str, Brief], A]
    """Make the answer where two replies were unreadable; the first argument is the reason."""
    schema: Mapping[str, Any] | None = None
    """JSON schema of the answer, for endpoints that take one; None where it is no JSON."""

    def prompt(self, prompts: Prompts, brief: Brief) -> str:
        """Render the prompt of `brief.mode` whole. Raises what `compose` raises."""
        _, prompt = self.compose(prompts, brief, None)
        return prompt.text

    def compose(self, prompts: Prompts, brief: Brief, limit: int | None) -> tuple[str, Prompt]:
        """Render the system prompt and the prompt of `brief.mode`, in at most `limit` tokens together.

        Raises:
            BadInput: if the role has no such mode, or the brief lacks what the mode needs.
        """
        if brief.mode not in self.templates:
            raise BadInput(f"mode {brief.mode!r}: the {self.name} answers in {', '.join(self.templates)} mode")
        template = self.templates[brief.mode]
        for field in template.needs:
            if getattr(brief, field) is None:
                raise BadInput(f"brief.{field}: missing; the {self.name} needs it in {brief.mode} mode")
        system = prompts.system(self.name, brief)
        if limit is not None:
            limit = max(0, limit - estimate_tokens(system))
        return system, prompts.compose(template.file, brief, limit)

    def _call_config(self, brief: Brief) -> RunnableConfig:
        """How a call of the model is named in traces, and what is told about it there."""
        return RunnableConfig(
            tags=["egg", self.name],
            run_name=f"egg {self.name}: {brief.mode}, attempt {brief.attempt} in {brief.stage}",
            metadata={"role": self.name, "stage": brief.stage, "attempt": brief.attempt, "mode": brief.mode},
        )

    async def answer(self, channel: ModelChannel, prompts: Prompts, brief: Brief, limit: int = BRIEF_TOKENS) -> A:
        """Ask the model, at most twice.

        Args:
            limit: most tokens of the prompt; see `compose`.

        Raises:
            BadInput: see `compose`.
            ModelRefused, ModelUnavailable: if the endpoint fails.
        """
        system, user = self.compose(prompts, brief, limit)
        question = ModelRequest(
            role=self.name,
            stage=brief.stage,
            attempt=brief.attempt,
            mode=brief.mode,
            model=model_name(channel.model),
            prompt=(Message(role="system", text=system), Message(role="user", text=user.text)),
            draft=brief.draft if self.name == "coder" and brief.drafts > 1 else 0,
        )
        conversation = await converse(
            channel, self._call_config(brief), question, lambda reply: self.read(reply, brief)
        )
        answer = conversation.value
        if answer is None:
            told_why = {"unusable": conversation.problem, "withheld": conversation.withheld}
            answer = self.fallback(conversation.problem, brief).model_copy(update=told_why)
        mended = (*conversation.mended, *answer.mended)
        return answer.model_copy(update={"usage": conversation.usage, "mended": mended})
