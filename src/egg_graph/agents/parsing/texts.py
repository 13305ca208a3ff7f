"""The values of an object as what a field wants: texts of bounded length, words of a list, truth."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from egg_graph.agents.parsing.reply import clean

_DEPTH = 4
"""Levels of lists and objects inside each other that become text."""
_WORD = 16
"""Characters that a word may have on average in a text of bounded length."""


def as_text(value: Any, depth: int = _DEPTH) -> str:
    """One text of a value: the steps of a list by their numbers, the entries of an object by their names."""
    if isinstance(value, str):
        return clean(value).strip()
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, list):
        steps = [as_text(entry, depth - 1) if depth else "…" for entry in value]
        return " ".join(f"{number}. {step}" for number, step in enumerate(filter(None, steps), start=1))
    if isinstance(value, dict):
        entries = {name: as_text(entry, depth - 1) if depth else "…" for name, entry in value.items()}
        return clean("; ".join(f"{name}: {text}" for name, text in entries.items() if text))
    return str(value)


def first_text(values: Mapping[str, Any], *keys: str) -> str:
    """The text of the first of these keys that says something."""
    return next((text for key in keys if (text := as_text(values.get(key)))), "")


def as_truth(value: Any) -> bool | None:
    """True or false, also as a word or with words behind it; None for anything else."""
    if isinstance(value, bool):
        return value
    word = re.match(r"\W*(true|yes|false|no)\b", str(value)[:40].lower()) if isinstance(value, str) else None
    return None if word is None else word[1] in ("true", "yes")


def names_in(text: str, names: Sequence[str]) -> list[str]:
    """The names that a text mentions, in the order in which it does; "Operator Fusion" mentions `operator_fusion`."""
    flat = re.sub(r"[^a-z0-9]+", "_", text[:400].lower())
    places = {name: place.start() for name in names if (place := re.search(rf"(?:^|_){name}(?:_|$)", flat))}
    return sorted(places, key=places.__getitem__)


def trim_words(text: str, limit: int) -> str:
    """Cut a text to `limit` words, none of them endless: at the end of a sentence if that keeps half, else with "…"."""
    words = text[: (limit + 1) * _WORD].split()
    if len(words) <= limit and len(text) <= (limit + 1) * _WORD:
        return " ".join(words)
    kept = words[:limit]
    for end in range(len(kept), len(kept) // 2, -1):
        if kept[end - 1].endswith((".", ";", "!")):
            return " ".join(kept[:end]).rstrip(";")
    return " ".join(kept) + "…"
