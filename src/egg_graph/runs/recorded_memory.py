"""What a recorded run was told of earlier ones: all that a replay of its models is told, on whatever machine."""

import json
from pathlib import Path
from typing import Any

from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from pydantic import TypeAdapter, ValidationError

from egg_graph.calls import run
from egg_graph.memory import LessonStore, place_of
from egg_graph.schema import BadInput, Lesson
from egg_graph.team import model_names

REPLAY = "replay:"
"""How the name of a replayed model begins; the folder of its run follows."""
_LESSONS: TypeAdapter[list[Lesson]] = TypeAdapter(list[Lesson])


def recorded_memory(model: Any, folder: str | None = None) -> BaseStore | None:
    """A store with what the runs were told whose models are replayed; None where none is.

    Args:
        model: what plays the team, as `optimize` takes it.
        folder: a folder with hardware specifications of the user's own.

    Raises:
        BadInput: if a run's lessons cannot be read.
    """
    runs = [name.removeprefix(REPLAY) for name in model_names(model) if name.startswith(REPLAY)]
    if not runs:
        return None
    store = InMemoryStore()
    for lesson in (lesson for name in dict.fromkeys(runs) for lesson in _read(Path(name))):
        run(LessonStore(store, place_of(lesson.gpu, folder)).keep([lesson]))
    return store


def _read(folder: Path) -> list[Lesson]:
    """The lessons in evidence.json; none of a run that has not ended, or of a version without memory."""
    path = folder / "evidence.json"
    try:
        kept = json.loads(path.read_text(encoding="utf-8")).get("lessons", [])
        return _LESSONS.validate_python(kept)
    except FileNotFoundError:
        return []
    except (OSError, ValueError, AttributeError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise BadInput(f"{path}: its lessons cannot be read: {first}") from error
