"""The terminal: where to print, and how to print text that a candidate or a model had a hand in."""

import re

from rich.console import Console
from rich.markup import escape

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def stdout() -> Console:
    """A console on standard output; made per use, so that a redirected stream is honoured."""
    return Console(highlight=False)


def stderr() -> Console:
    """A console on standard error."""
    return Console(stderr=True, highlight=False)


def plain(text: object) -> str:
    """Untrusted text made harmless: on one line, no terminal control sequences, no markup."""
    return escape(" ".join(_CONTROL.sub("", str(text)).split()))
