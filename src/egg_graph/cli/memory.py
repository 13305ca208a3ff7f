"""`egg-graph memory`: what earlier runs measured, as later runs on similar problems are told it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from egg_graph.cli.console import plain, stdout
from egg_graph.schema import BadInput, Lesson

if TYPE_CHECKING:
    from egg_graph.memory import Kept, LessonStore

memory = typer.Typer(no_args_is_help=True, help="What earlier runs measured, which later ones are told: list, forget.")
GPU = typer.Option(help="Only of this GPU, by its hardware key, such as h200.")
KEYS = typer.Argument(help="Keys of lessons, as the list tells them; their beginning is enough.")

WIDE = 140
"""Columns from which every field of the list has a column of its own."""
_COLUMNS = dict.fromkeys(
    ("key", "structure", "bottleneck", "precision", "stage", "against", "ms", "change", "vs PyTorch"), False
) | {"plan": True}
_NARROW = dict.fromkeys(("key", "problem", "change", "ratio"), False) | {"plan": True}
"""Heading of each column, and whether its text may take several lines."""


@memory.command(name="list")
def list_lessons(
    gpu: Annotated[str | None, GPU] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, with every field.")] = False,
) -> None:
    """List the lessons, of each GPU by structure; those that were retracted are told to no run."""
    from egg_graph.memory.on_disk import memory_path

    with _open() as places:
        found = [(place, kept) for place, kept in _read(places, gpu) if kept.lessons or kept.unreadable]
    if not found and not as_json:
        stdout().print(f"nothing is remembered in {plain(memory_path())}", soft_wrap=True)
    for place, kept in found:
        if as_json:
            _print_json(place, kept)
        else:
            _print_table(place, kept)


@memory.command()
def show(keys: Annotated[list[str], KEYS]) -> None:
    """Show every field of lessons."""
    with _open() as places:
        for place, lesson, retracted in _find(places, keys):
            table = Table("field", "value", box=None, header_style="bold")
            rows = {"key": lesson.key, "place": place, **lesson.model_dump(mode="json")}
            for name, value in ({**rows, "retracted": retracted} if retracted else rows).items():
                table.add_row(name, plain(value if isinstance(value, str) else json.dumps(value)))
            stdout().print(table)


@memory.command()
def forget(
    keys: Annotated[list[str] | None, KEYS] = None,
    gpu: Annotated[str | None, GPU] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them, or all of --gpu.")] = False,
) -> None:
    """Remove lessons, and the notes that they were retracted."""
    from egg_graph.calls import run

    if bool(keys) == everything:
        raise BadInput("name the lessons to forget by their keys, or give --all")
    with _open() as places:
        if everything:
            found = {place: _all_keys(kept) for place, kept in _read(places, gpu)}
        else:
            found = {}
            for place, lesson, _ in _find(places, keys or [], gpu):
                found.setdefault(place, set()).add(lesson.key)
        for place, forgotten in found.items():
            run(places[place].forget(forgotten))
        count = sum(map(len, found.values()))
        stdout().print(f"{count} lesson{'' if count == 1 else 's'} forgotten")


@contextmanager
def _open() -> Iterator[dict[str, "LessonStore"]]:
    """What is kept on this machine, by GPU; nothing is made where there is nothing."""
    from egg_graph.calls import run
    from egg_graph.memory import LessonStore, gpus_in
    from egg_graph.memory.on_disk import OF_ITSELF, memory_exists, memory_path, open_memory

    path = memory_path()
    if not memory_exists(path):
        yield {}
        return
    with open_memory(path, OF_ITSELF) as store:
        yield {gpu: LessonStore(store, gpu) for gpu in run(gpus_in(store))}


def _read(places: dict[str, "LessonStore"], gpu: str | None) -> Iterator[tuple[str, "Kept"]]:
    """What is kept of each GPU, or of one.

    Raises:
        BadInput: if nothing is kept of that one.
    """
    from egg_graph.calls import run

    if gpu is not None and places and gpu not in places:
        raise BadInput(f"nothing is remembered of the GPU {gpu!r}; there are lessons of {', '.join(places)}")
    for place, lessons in places.items():
        if gpu in (None, place):
            yield place, run(lessons.read())


def _all_keys(kept: "Kept") -> set[str]:
    return {*(lesson.key for lesson in kept.lessons), *kept.unreadable, *kept.retracted}


def _find(places: dict[str, "LessonStore"], keys: list[str], gpu: str | None = None) -> list[tuple[str, Lesson, str]]:
    """Place, lesson and why it was retracted, of each key or beginning of one.

    Raises:
        BadInput: if there is none, or more than one.
    """
    known = [
        (place, lesson, kept.retracted.get(lesson.key, ""))
        for place, kept in _read(places, gpu)
        for lesson in kept.lessons
    ]
    found = []
    for key in keys:
        fitting = [one for one in known if key and one[1].key.startswith(key)]
        if len(fitting) != 1:
            raise BadInput(f"{'no lesson has' if not fitting else 'several lessons have'} a key that begins {key!r}")
        found += fitting
    return found


def _print_json(place: str, kept: "Kept") -> None:
    for lesson in kept.lessons:
        data = {"key": lesson.key, "place": place, "retracted": kept.retracted.get(lesson.key, "")}
        typer.echo(json.dumps(data | lesson.model_dump(mode="json")))


def _print_table(place: str, kept: "Kept") -> None:
    console = stdout()
    narrow = console.width < WIDE
    columns = _NARROW if narrow else _COLUMNS
    table = Table(box=None, header_style="bold", title=f"{plain(place)}", title_justify="left")
    for name, overflow in columns.items():
        table.add_column(name, overflow="fold", no_wrap=not overflow)
    for lesson in sorted(kept.lessons, key=lambda one: (one.structure, one.stage, one.percent)):
        why = kept.retracted.get(lesson.key)
        cells = _narrow_row(lesson, why) if narrow else _row(lesson, why)
        table.add_row(*cells, style="" if why is None else "dim")
    console.print(table)
    if narrow and kept.lessons:
        console.print("more of each on a wider terminal, by egg-graph memory show KEY, or by --json", soft_wrap=True)
    if kept.unreadable:
        console.print(f"{len(kept.unreadable)} entries cannot be read by this version; forget --all removes them")


def _row(lesson: Lesson, retracted: str | None) -> tuple[str, ...]:
    against = lesson.against if lesson.against == "PyTorch" else "kernel"
    times = f"{lesson.before_ms:.4g} to {lesson.after_ms:.4g}"
    words = (lesson.key[:8], lesson.structure, lesson.bottleneck, lesson.precision, lesson.stage, against, times)
    return (*map(plain, words), _change(lesson, ", "), f"{lesson.ratio:.2f}x", _plan(lesson, retracted))


def _narrow_row(lesson: Lesson, retracted: str | None) -> tuple[str, ...]:
    problem = f"{plain(lesson.structure)}\n{plain(lesson.stage)}"
    return plain(lesson.key[:8]), problem, _change(lesson, "\n"), f"{lesson.ratio:.2f}x", _plan(lesson, retracted)


def _change(lesson: Lesson, between: str) -> str:
    outcome = "" if lesson.outcome == "improved" else f"{between}not accepted"
    return f"{lesson.percent:+.1f} %{outcome}"


def _plan(lesson: Lesson, retracted: str | None) -> str:
    return plain(lesson.plan if retracted is None else f"RETRACTED: {retracted}")
