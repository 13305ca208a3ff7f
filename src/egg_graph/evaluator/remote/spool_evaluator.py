"""An evaluator behind a folder, for a GPU host that nobody can reach."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from egg_graph.calls import in_thread
from egg_graph.evaluator.progress import report_progress
from egg_graph.evaluator.remote.asking_evaluator import AskingEvaluator
from egg_graph.evaluator.remote.questions import Answer, Question
from egg_graph.evaluator.remote.spool import Spool
from egg_graph.schema import AnswerPending


class SpoolEvaluator(AskingEvaluator):
    """Lays each question into a folder, and takes the answer that `egg-graph spool FOLDER` leaves there.

    Many evaluators, of one process or several, may share a folder; equal questions share one answer. Answers stay, so
    that a run that asks again (resumed, or in a node that begins anew) gets the same one. Answers of one folder should
    be one host's: use another folder for another host.

    Args:
        folder: the folder; made if it is not there.
        wait: seconds to wait for an answer; None waits as long as it takes. 0 does not wait: the first question without
            an answer raises `AnswerPending`, the run ends, and goes on where it was when it is resumed.
        label: evaluators with another label get measurements of their own.
        poll: seconds between two looks at the folder.

    Raises:
        BadInput: if the folder cannot be made.
    """

    def __init__(self, folder: str | Path, *, wait: float | None = None, label: str = "", poll: float = 0.5) -> None:
        super().__init__(label)
        self.folder = Path(folder)
        self._spool = Spool(self.folder)
        self._wait = wait
        self._poll = poll

    async def ask(self, question: Question) -> Answer:
        """Ask, and wait for the answer. If it is cancelled, the question is taken back.

        Raises:
            AnswerPending: if there is no answer in time; the question stays in the folder.
            InfrastructureError: if the folder cannot be read or written, or an answer is damaged.
        """
        began = time.monotonic()
        if self._wait != 0:
            report_progress(f"waits for an answer in {self.folder}")
        try:
            while (answer := await in_thread(self._look, question)) is None:
                if self._wait is not None and time.monotonic() - began >= self._wait:
                    raise AnswerPending(
                        f"no answer yet in {self.folder}: have it judged (egg-graph spool {self.folder}), then run or "
                        "resume again"
                    )
                await asyncio.sleep(self._poll)
        except asyncio.CancelledError:
            self._spool.withdraw(question.key)
            raise
        return answer

    def _look(self, question: Question) -> Answer | None:
        """Take the answer; lay the question down where there is none. An answer that does not last is taken once."""
        answer = self._spool.answer(question)
        if answer is None:
            self._spool.ask(question)
            return None
        self._spool.withdraw(question.key)
        if not answer.lasting:
            self._spool.forget(question.key)
        return answer
