"""A folder of questions and answers: what is asked lies there until it is judged, and each answer stays.

FOLDER/questions/<key>.json   waits for a judge
FOLDER/answers/<key>.json     was judged
FOLDER/lock                   locked while a process judges what lies there; names that process

Files are written whole or not at all, so that either side may be killed, and the folder copied at any time.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from egg_graph.evaluator.remote.questions import (
    KEY,
    QUESTION_BYTES,
    Answer,
    Question,
    read_answer,
    read_question,
)
from egg_graph.process_lock import AlreadyLocked, free_lock, take_lock
from egg_graph.schema import BadInput, InfrastructureError
from egg_graph.whole_files import write_whole

LOG = logging.getLogger("egg_graph")
ANSWER_BYTES = 64 * 2**20
"""Largest answer [byte]."""
DAY = 86_400.0
"""Seconds of a day."""


class Spool:
    """One folder, from either side.

    Args:
        folder: made if it is not there.
        judge: who judges here (`Answer.judge`): answers of others do not count. None for whoever asks.

    Raises:
        BadInput: if the folder cannot be made, or is a link.
    """

    def __init__(self, folder: Path, judge: str | None = None) -> None:
        self.folder = folder
        self.judge = judge
        self.questions, self.answers = folder / "questions", folder / "answers"
        for place in (self.questions, self.answers):
            try:
                place.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise BadInput(f"{place}: cannot be made: {error.strerror}; name another folder") from error
            if place.is_symlink():
                raise BadInput(f"{place}: is a link, which may lead anywhere; name a folder that holds no links")

    def ask(self, question: Question) -> None:
        """Lay a question down, unless it lies there.

        Raises:
            InfrastructureError: if the folder cannot be written.
        """
        path = self._question(question.key)
        if not path.exists():
            self._write(path, question.model_dump_json())

    def waiting(self, refuse: Callable[[str, BadInput], None], known: Container[str] = ()) -> tuple[Question, ...]:
        """The questions that lie there without a lasting answer: those of one task together, the oldest task first.

        Args:
            refuse: called with the key, and what is wrong, of each question that cannot be read.
            known: keys of questions that are not wanted again.

        Raises:
            InfrastructureError: if the folder cannot be read.
        """
        found: list[Question] = []
        for path in self._listed():
            if path.stem in known:
                continue
            try:
                question = _checked(path)
            except FileNotFoundError:  # it was taken back meanwhile
                continue
            except BadInput as error:
                refuse(path.stem, error)
                continue
            answer = self.answer(question)
            if answer is None or not answer.lasting:
                found.append(question)
            else:
                self.withdraw(question.key)
        return _together(found)

    def said(self, key: str) -> Answer | None:
        """What this judge said to the question of that key; None where it said nothing that can be read."""
        try:
            answer = Answer.model_validate_json(_read(self._answer(key), ANSWER_BYTES))
        except (OSError, BadInput, ValidationError):
            return None
        return answer if (answer.key, answer.judge) == (key, self.judge) else None

    def answer(self, question: Question) -> Answer | None:
        """The answer to a question; None where there is none. To a judge, what another one said counts as none.

        Raises:
            InfrastructureError: if the file cannot be read, or is damaged; to a judge that counts as none.
        """
        path = self._answer(question.key)
        try:
            answer = read_answer(_read(path, ANSWER_BYTES), question, str(path))
        except FileNotFoundError:
            return None
        except (OSError, BadInput, InfrastructureError) as error:
            if self.judge is not None:
                LOG.warning("judged anew: %s: %s", path, error)
                return None
            raise InfrastructureError(f"{path}: cannot be read: {error}") from error
        return answer if self.judge in (None, answer.judge) else None

    def keep(self, answer: Answer) -> None:
        """Write an answer, and take its question away.

        Raises:
            InfrastructureError: if the folder cannot be written.
        """
        self._write(self._answer(answer.key), answer.model_dump_json())
        self.withdraw(answer.key)

    def withdraw(self, key: str) -> None:
        """Take a question away; nothing happens where it does not lie there."""
        self._question(key).unlink(missing_ok=True)

    def forget(self, key: str) -> None:
        """Take an answer away, so that the question can be asked anew."""
        self._answer(key).unlink(missing_ok=True)

    def prune(self, days: float) -> None:
        """Delete questions and answers that were written more than `days` ago."""
        oldest = time.time() - days * DAY
        for path in (*self.questions.iterdir(), *self.answers.iterdir()):
            with suppress(FileNotFoundError):
                if path.lstat().st_mtime < oldest:
                    path.unlink()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the one process that judges what lies here. The kernel ends it with the process.

        Raises:
            InfrastructureError: if another one does, or the folder cannot be written.
        """
        try:
            file = take_lock(self.folder / "lock", os.O_NOFOLLOW)
        except AlreadyLocked as holder:
            raise InfrastructureError(f"{holder} judges what lies in {self.folder}; stop it first") from holder
        except OSError as error:
            raise self._cannot_write(error) from error
        try:
            yield
        finally:
            free_lock(file)

    def _listed(self) -> list[Path]:
        """Files of questions, the oldest first; others, such as those that are being copied, do not count."""
        ages: list[tuple[float, Path]] = []
        for path in self.questions.glob("*.json"):
            if KEY.fullmatch(path.stem):
                with suppress(FileNotFoundError):
                    ages.append((path.lstat().st_mtime, path))
        return [path for _, path in sorted(ages)]

    def _question(self, key: str) -> Path:
        return self.questions / f"{key}.json"

    def _answer(self, key: str) -> Path:
        return self.answers / f"{key}.json"

    def _write(self, path: Path, text: str) -> None:
        try:
            write_whole(path, text)
        except OSError as error:
            raise self._cannot_write(error) from error

    def _cannot_write(self, error: OSError) -> InfrastructureError:
        return InfrastructureError(
            f"cannot write the folder {self.folder}: {error.strerror or error}; see that it can be written, on a disk "
            "with free space"
        )


def _checked(path: Path) -> Question:
    """The question in a file that is named by its key.

    Raises:
        BadInput: if the file holds no question, or another one.
        FileNotFoundError: if it is gone.
    """
    try:
        question = read_question(_read(path, QUESTION_BYTES))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BadInput(f"a question that cannot be read: {error.strerror}") from error
    if question.key != path.stem:
        raise BadInput("the file is not named by the key of the question that it holds")
    return question


def _read(path: Path, limit: int) -> bytes:
    """Read an ordinary file; no link is followed, and nothing larger than `limit` bytes is read.

    Raises:
        OSError: if it cannot be read, or is a link.
        BadInput: if it is no ordinary file, or too large.
    """
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise BadInput("it is no ordinary file")
        content = opened.read(limit + 1)
    if len(content) > limit:
        raise BadInput(f"it has more than {limit} bytes")
    return content


def _together(questions: list[Question]) -> tuple[Question, ...]:
    """Questions of one task together, baselines first: a judge that changes the task begins anew."""
    tasks: dict[str, int] = {}
    for question in questions:
        tasks.setdefault("" if question.task is None else question.task.digest, len(tasks))
    order = ("environment", "baseline", "profile", "screen", "evaluate")

    def place(question: Question) -> tuple[int, int]:
        return tasks["" if question.task is None else question.task.digest], order.index(question.kind)

    return tuple(sorted(questions, key=place))
