"""Names of models and evaluators that hold a folder, such as `handoff:prompts` or `spool:questions,wait=0`."""

from pathlib import Path
from typing import Any

KINDS = ("handoff", "replay", "spool")
"""Beginnings of the names whose rest is a folder."""


def absolute_names(given: Any) -> Any:
    """The same names with absolute folders, so that a run that is resumed elsewhere finds them.

    Args:
        given: a name, or names in lists and mappings; anything else is returned as it is.
    """
    if isinstance(given, dict):
        return {role: absolute_names(one) for role, one in given.items()}
    if isinstance(given, list | tuple):
        return [absolute_names(one) for one in given]
    return _absolute(given) if isinstance(given, str) else given


def _absolute(name: str) -> str:
    kind, _, place = name.strip().partition(":")
    folder, comma, options = place.partition(",")
    if kind not in KINDS or not folder:
        return name
    return f"{kind}:{Path(folder).absolute()}{comma}{options}"
