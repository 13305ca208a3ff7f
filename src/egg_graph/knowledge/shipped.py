"""Read the shipped prompts, principles and hardware specifications, from an installation or from a checkout."""

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from egg_graph.schema import BadInput

_CHECKOUT = Path(__file__).resolve().parents[3] / "prompts"


@cache
def _root() -> Traversable:
    """The prompts package; the checkout's folder where egg_graph runs from `src` without installation."""
    try:
        return files("egg_graph.prompts")
    except ModuleNotFoundError:
        if (_CHECKOUT / "__init__.py").is_file():
            return _CHECKOUT
        raise


def prompt_files(suffix: str) -> tuple[str, ...]:
    """Names of the shipped files that end with `suffix` (".j2", ".toml"), sorted."""
    files_here = (entry.name for entry in _root().iterdir() if entry.is_file())
    return tuple(sorted(name for name in files_here if name.endswith(suffix)))


def prompt_text(name: str) -> str:
    """Text of one shipped file.

    Raises:
        BadInput: if there is no such file.
    """
    entry = _root().joinpath(name)
    if not entry.is_file():
        raise BadInput(f"prompts/{name}: no such file among the shipped prompts")
    return entry.read_text(encoding="utf-8")
