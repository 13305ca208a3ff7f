"""How a chat model plays a role: one declaration for each role, one procedure for all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, get_args

from langchain_core.runnables import Runnable, RunnableConfig

from egg_graph.agents.asked import Asked
from egg_graph.agents.conversation import Conversation, converse
from egg_graph.agents.parsing import Reply
from egg_graph.agents.prompts import Prompts
from egg_graph.schema import BadInput, Brief, Mode, ModelRefused, Role, RoleAnswer

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

    The system prompt also needs `_role_<name>.j2`, one sentence about the role.
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
        """Render the prompt of `brief.mode`.

        Raises:
            BadInput: if the role has no such mode, or the brief lacks what the mode needs.
        """
        if brief.mode not in self.templates:
            raise BadInput(f"mode {brief.mode!r}: the {self.name} answers in {', '.join(self.templates)} mode")
        template = self.templates[brief.mode]
        for field in template.needs:
            if getattr(brief, field) is None:
                raise BadInput(f"brief.{field}: missing; the {self.name} needs it in {brief.mode} mode")
        return prompts.render(template.file, brief)

    def _call_config(self, brief: Brief) -> RunnableConfig:
        """How a call of the model is named in traces, and what is told about it there."""
        return RunnableConfig(
            tags=["egg", self.name],
            run_name=f"egg {self.name}: {brief.mode}, attempt {brief.attempt} in {brief.stage}",
            metadata={"role": self.name, "stage": brief.stage, "attempt": brief.attempt, "mode": brief.mode},
        )

    async def answer(self, asked: Asked, prompts: Prompts, brief: Brief) -> A:
        """Ask the model, at most twice; in words where its endpoint refuses the schema.

        Raises:
            BadInput: see `prompt`.
            ModelRefused, InfrastructureError: if the endpoint fails.
        """
        prompt = prompts.system(self.name, brief), self.prompt(prompts, brief)
        told: tuple[str, ...] = ()
        try:
            conversation = await self._converse(asked.model, prompt, brief)
        except ModelRefused as refusal:
            if not (line := asked.give_up_schema(refusal)):
                raise
            told = (line,)
            conversation = await self._converse(asked.model, prompt, brief)
        answer = conversation.value
        if answer is None:
            answer = self.fallback(conversation.problem, brief)
        mended = (*told, *conversation.mended, *answer.mended)
        return answer.model_copy(update={"usage": conversation.usage, "mended": mended})

    async def _converse(self, model: Runnable[Any, Any], prompt: tuple[str, str], brief: Brief) -> Conversation[A]:
        def read(reply: Reply) -> A:
            return self.read(reply, brief)

        return await converse(model, self._call_config(brief), *prompt, read)
