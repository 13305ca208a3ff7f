"""How a chat model plays a role: one declaration for each role, one procedure for all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, get_args

from langchain_core.runnables import Runnable, RunnableConfig

from egg_graph.agents.conversation import converse
from egg_graph.agents.parsing import Reply
from egg_graph.agents.prompts import Prompts
from egg_graph.schema import BadInput, Brief, Mode, Role, Value

Answer = TypeVar("Answer", bound=Value)


class Template(NamedTuple):
    """A template of a role, and the fields of the brief that it needs."""

    file: str
    needs: tuple[str, ...] = ()


def in_every_mode(template: Template) -> dict[Mode, Template]:
    """Templates of a role whose prompt does not depend on the mode."""
    return dict.fromkeys(get_args(Mode), template)


@dataclass(frozen=True)
class ChatRole(Generic[Answer]):
    """One role as a chat model plays it.

    The system prompt also needs `_role_<name>.j2`, one sentence about the role.
    """

    name: Role
    templates: Mapping[Mode, Template]
    """The template of each mode in which the role answers."""
    read: Callable[[Reply, Brief], Answer]
    """Parse a reply. Raises `Unreadable` where the reply cannot be used."""
    fallback: Callable[[str, Brief], Answer]
    """Make the answer where two replies were unreadable; the first argument is the reason."""

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

    async def answer(self, model: Runnable[Any, Any], prompts: Prompts, brief: Brief) -> Answer:
        """Ask the model, at most twice.

        Raises:
            BadInput: see `prompt`.
            ModelRefused, InfrastructureError: if the endpoint fails.
        """
        prompt = self.prompt(prompts, brief)
        conversation = await converse(
            model,
            self._call_config(brief),
            prompts.system(self.name, brief),
            prompt,
            lambda reply: self.read(reply, brief),
        )
        answer = conversation.value
        if answer is None:
            answer = self.fallback(conversation.problem, brief)
        return answer.model_copy(update={"usage": conversation.usage})
