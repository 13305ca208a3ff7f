"""The files of a `HandoffModel`: prompts, each with a head that names the file of its answer, and their answers."""

from pathlib import Path
from typing import NamedTuple

from egg_graph.schema import BadInput

PROMPT, ANSWER = ".prompt.md", ".answer.md"


class OpenPrompt(NamedTuple):
    """A prompt without an answer."""

    id: str
    """Number and role, such as `003-coder`."""
    role: str
    text: str
    """Without the head of its file."""


def write_prompt(file: Path, text: str) -> None:
    """Write a prompt under a head that names the file of its answer."""
    file.write_text(_head(file) + text, encoding="utf-8")


def read_prompt(file: Path) -> str:
    """The prompt in a file, without its head."""
    return file.read_text(encoding="utf-8").removeprefix(_head(file))


def answer_file(prompt: Path) -> Path:
    """The file of a prompt's answer."""
    return prompt.with_name(prompt.name.removesuffix(PROMPT) + ANSWER)


def _head(prompt: Path) -> str:
    return f"(Write the answer to this prompt into the file {answer_file(prompt).name} in this folder.)\n\n"


def open_prompts(folder: Path) -> list[OpenPrompt]:
    """The prompts in a folder that have no answer yet, in the order in which they were asked."""
    names = sorted(path.name.removesuffix(PROMPT) for path in folder.glob(f"*{PROMPT}"))
    waiting = [name for name in names if not (folder / f"{name}{ANSWER}").is_file()]
    prompts = [OpenPrompt(name, name.partition("-")[2], read_prompt(folder / f"{name}{PROMPT}")) for name in waiting]
    return [prompt for prompt in prompts if prompt.text]  # an empty file is about to be written


def write_answer(folder: Path, prompt: str, text: str) -> None:
    """Answer a prompt.

    Args:
        prompt: its id.
        text: the answer.

    Raises:
        BadInput: if no prompt of that id waits for an answer, or the answer is empty.
    """
    waiting = [one.id for one in open_prompts(folder)]
    if prompt not in waiting:
        there = f"waiting: {', '.join(waiting)}" if waiting else "no prompt waits for an answer"
        raise BadInput(f"prompt {prompt!r} waits for no answer; {there}")
    if not text.strip():
        raise BadInput(f"the answer to prompt {prompt!r} is empty; the prompt says what it should hold")
    unfinished = folder / f".{prompt}{ANSWER}"
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(folder / f"{prompt}{ANSWER}")
