"""Lessons in a store of LangGraph's, whichever it is: kept once, retracted, forgotten.

| namespace | key | holds |
| --- | --- | --- |
| `("egg_graph", "lessons", GPU)` | `Lesson.key` | a lesson, as JSON data |
| `("egg_graph", "retractions", GPU)` | the same | why the lesson does not hold any more, and since when |

Nothing that is there is read, changed and written back, so processes that share a store cannot lose each other's
entries: a lesson is written whole, and a retraction stands beside it.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from langgraph.store.base import BaseStore
from pydantic import ValidationError

from egg_graph.calls import Call
from egg_graph.schema import Lesson

ROOT = "egg_graph"
LESSONS, RETRACTIONS = "lessons", "retractions"
MOST = 10_000
"""Most entries of one GPU that are read."""


class Kept(NamedTuple):
    """What a store holds of one GPU."""

    lessons: tuple[Lesson, ...]
    retracted: dict[str, str]
    """Why a lesson does not hold, by its key."""
    unreadable: tuple[str, ...] = ()
    """Keys of entries that are no lessons of this version."""

    @property
    def holding(self) -> tuple[Lesson, ...]:
        """The lessons that are not retracted."""
        return tuple(lesson for lesson in self.lessons if lesson.key not in self.retracted)


class LessonStore:
    """The lessons of one GPU in a store. Its methods work under synchronous and asynchronous callers.

    Args:
        store: any store of LangGraph's.
        gpu: see `egg_graph.memory.place_of`.
    """

    def __init__(self, store: BaseStore, gpu: str) -> None:
        self.store = store
        self.gpu = gpu

    async def read(self) -> Kept:
        """Read what is kept. Entries that cannot be read are told by their keys, and stay."""
        lessons, unreadable = [], []
        for key, value in (await self._entries(LESSONS)).items():
            try:
                lesson = Lesson.model_validate(value)
            except ValidationError:
                unreadable.append(key)
                continue
            if lesson.key == key:
                lessons.append(lesson)
            else:
                unreadable.append(key)
        retracted = {key: str(value.get("reason", "")) for key, value in (await self._entries(RETRACTIONS)).items()}
        return Kept(tuple(lessons), retracted, tuple(unreadable))

    async def keep(self, lessons: Iterable[Lesson]) -> None:
        """Write lessons; one that is there already is written again, and counts once."""
        for lesson in lessons:
            await self._ask(
                self.store.put, self._place(LESSONS), lesson.key, lesson.model_dump(mode="json"), index=False
            )

    async def retract(self, reasons: Mapping[str, str]) -> None:
        """Note why lessons do not hold any more, by their keys. They stay retracted, whatever is measured later."""
        for key, reason in reasons.items():
            note = {"reason": reason, "since": datetime.now(UTC).date().isoformat()}
            await self._ask(self.store.put, self._place(RETRACTIONS), key, note, index=False)

    async def forget(self, keys: Iterable[str]) -> None:
        """Remove entries, and the notes of their retraction."""
        for key in keys:
            for kind in (LESSONS, RETRACTIONS):
                await self._ask(self.store.delete, self._place(kind), key)

    async def _entries(self, kind: str) -> dict[str, dict[str, Any]]:
        found = await self._ask(self.store.search, self._place(kind), limit=MOST)
        return {item.key: item.value for item in found}

    def _place(self, kind: str) -> tuple[str, str, str]:
        return ROOT, kind, self.gpu

    async def _ask(self, method: Any, *args: Any, **options: Any) -> Any:
        """Call a method of the store; in a thread where the store has no asynchronous form of it."""
        try:
            return await Call(method, *args, **options)
        except NotImplementedError:
            return await Call(method, *args, twin=method, **options)


async def gpus_in(store: BaseStore) -> tuple[str, ...]:
    """The GPUs of which a store holds lessons, in alphabetical order."""
    found = await Call(store.list_namespaces, prefix=(ROOT, LESSONS), limit=MOST)
    return tuple(sorted(namespace[2] for namespace in found if len(namespace) == 3))
