"""How a chat model plays a role: one declaration for each role, one procedure for all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, get_args

from langchain_core.runnables import RunnableConfig

from egg_graph.agents.conversation import Conversation, converse
from egg_graph.agents.endpoint import model_name
from egg_graph.agents.parsing import Reply
from egg_graph.agents.parts import Prompt
from egg_graph.agents.prompts import Prompts
from egg_graph.agents.requests import Line
from egg_graph.agents.tokens import estimate_tokens
from egg_graph.model_requests import request_log
from egg_graph.schema import BadInput, Brief, Message, Mode, ModelRefused, ModelRequest, Role, RoleAnswer, Usage

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
        return self.compose(prompts, brief, None).text

    def compose(self, prompts: Prompts, brief: Brief, limit: int | None) -> Prompt:
        """Render the prompt of `brief.mode` in at most `limit` tokens, the system prompt counted in.

        Raises:
            BadInput: if the role has no such mode, or the brief lacks what the mode needs.
        """
        if brief.mode not in self.templates:
            raise BadInput(f"mode {brief.mode!r}: the {self.name} answers in {', '.join(self.templates)} mode")
        template = self.templates[brief.mode]
        for field in template.needs:
            if getattr(brief, field) is None:
                raise BadInput(f"brief.{field}: missing; the {self.name} needs it in {brief.mode} mode")
        if limit is not None:
            limit = max(0, limit - estimate_tokens(prompts.system(self.name, brief)))
        return prompts.compose(template.file, brief, limit)

    def _call_config(self, brief: Brief) -> RunnableConfig:
        """How a call of the model is named in traces, and what is told about it there."""
        return RunnableConfig(
            tags=["egg", self.name],
            run_name=f"egg {self.name}: {brief.mode}, attempt {brief.attempt} in {brief.stage}",
            metadata={"role": self.name, "stage": brief.stage, "attempt": brief.attempt, "mode": brief.mode},
        )

    async def answer(self, line: Line, prompts: Prompts, brief: Brief, limit: int = BRIEF_TOKENS) -> A:
        """Ask the model, at most twice; in words where its endpoint refuses the schema.

        Args:
            limit: most tokens of the prompt; see `compose`.

        Raises:
            BadInput: see `compose`.
            ModelRefused, ModelUnavailable: if the endpoint fails.
        """
        prompt = prompts.system(self.name, brief), self.compose(prompts, brief, limit).text
        told, refused = "", Usage()
        try:
            conversation = await self._converse(line, prompt, brief)
        except ModelRefused as refusal:
            if not (told := line.asked.give_up_schema(refusal)):
                raise
            if request_log() is None:  # a log books it
                refused = Usage(calls=1, failed=1)
            conversation = await self._converse(line, prompt, brief)
        answer = conversation.value
        if answer is None:
            told_why = {"unusable": conversation.problem, "withheld": conversation.withheld}
            answer = self.fallback(conversation.problem, brief).model_copy(update=told_why)
        mended = (*filter(None, [told]), *conversation.mended, *answer.mended)
        return answer.model_copy(update={"usage": refused + conversation.usage, "mended": mended})

    async def _converse(self, line: Line, prompt: tuple[str, str], brief: Brief) -> Conversation[A]:
        def read(reply: Reply) -> A:
            return self.read(reply, brief)

        system, user = prompt
        question = ModelRequest(
            role=self.name,
            stage=brief.stage,
            attempt=brief.attempt,
            mode=brief.mode,
            model=model_name(line.model),
            prompt=(Message(role="system", text=system), Message(role="user", text=user)),
        )
        return await converse(line, self._call_config(brief), question, read)
