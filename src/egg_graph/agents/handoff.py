"""A chat model whose answers another agent, or a person, writes into files."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, BaseRunManager, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from egg_graph.agents.handoff_folder import PROMPT, answer_file, read_prompt, write_prompt
from egg_graph.calls import Call, arun, run
from egg_graph.evaluator.progress import report_progress
from egg_graph.model_requests import request_log
from egg_graph.schema import ROLES, AnswerPending, BadInput, ModelRefused

PATIENCE = 86_400.0
"""Seconds that a run waits for one answer, where nobody says how long."""
_NUMBERING = threading.Lock()
"""Held while a prompt gets its number: several coders may ask at once."""
FOLDER = "handoff"
"""The folder of the files, in a run's folder."""


class HandoffModel(BaseChatModel):
    """Writes each prompt to `NNN-role.prompt.md` in a folder and waits for `NNN-role.answer.md`.

    So any agent with a file system, or a person with an editor, can play a role:

        team = ModelTeam(HandoffModel(folder="handoff"))

    An answer is taken once the file has text and has not changed for one poll. A prompt with the same text as an
    earlier one keeps its number, and an answer that is already there is taken, so that an interrupted run goes on where
    it stopped. In a team the tokens are estimated from the texts.
    """

    folder: Path | None = None
    """None: the folder `handoff` in the folder of the run."""
    timeout: float = 3600.0
    """Seconds to wait for one answer. After that `ModelRefused` names the missing file."""
    wait: float | None = None
    """Seconds after which a run without an answer ends with `AnswerPending`, and can be resumed; 0 does not wait. None
    waits for `timeout`."""
    poll: float = 0.2
    """Seconds between two looks at the file."""
    on_poll: Callable[[], None] | None = None
    """Called before every look; what it raises ends the wait."""
    keeps_time: bool = True
    """A team leaves the time-out to this model."""

    @property
    def _llm_type(self) -> str:
        return "handoff"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return run(self._ask(_role(run_manager), messages))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return await arun(self._ask(_role(run_manager), messages))

    async def _ask(self, role: str, messages: list[BaseMessage]) -> ChatResult:
        text = "\n\n".join(f"# {message.type}\n\n{message.text}" for message in messages)
        prompt = self._prompt_file(role, text)
        answer = await self._wait(answer_file(prompt))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(answer))])

    def _prompt_file(self, role: str, text: str) -> Path:
        """The file that holds this prompt; a new one with the next number if there is none yet."""
        folder = self._folder()
        folder.mkdir(parents=True, exist_ok=True)
        with _NUMBERING:
            return self._find_or_write(folder, role, text)

    def _find_or_write(self, folder: Path, role: str, text: str) -> Path:
        asked = sorted(folder.glob(f"*{PROMPT}"))
        for file in asked:
            if file.name.endswith(f"-{role}{PROMPT}") and read_prompt(file) == text:
                return file
        numbers = [file.name.partition("-")[0] for file in asked]
        number = max((int(given) for given in numbers if given.isdigit()), default=0) + 1
        file = folder / f"{number:03d}-{role}{PROMPT}"
        write_prompt(file, text)
        return file

    def _folder(self) -> Path:
        if self.folder is not None:
            return self.folder
        if (log := request_log()) is None:
            raise BadInput("handoff: there is no run whose folder could hold the prompts; name one: handoff:FOLDER")
        return log.folder / FOLDER

    async def _wait(self, answer: Path) -> str:
        report_progress(f"waits for {answer}")
        began, before = time.monotonic(), None
        while (waited := time.monotonic() - began) < self.timeout:
            if self.on_poll is not None:
                self.on_poll()
            now = answer.read_text(encoding="utf-8") if answer.is_file() else ""
            if now.strip() and now == before:
                return now
            if self.wait is not None and waited >= self.wait and not now.strip():
                raise AnswerPending(f"no answer yet in {answer}: write it there, then run or resume again")
            before = now
            await Call(time.sleep, self.poll, twin=asyncio.sleep)
        raise ModelRefused(f"{answer}: no answer within {self.timeout:g} s; write it there and run again")


def _role(run_manager: BaseRunManager | None) -> str:
    """The role among the tags of the call ("egg", role)."""
    tags = run_manager.tags if run_manager is not None else []
    return next((tag for tag in tags if tag in ROLES), "model")
