"""Hostile source text as HTML: highlighted, escaped, and no longer than a page can bear."""

import difflib

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import DiffLexer, PythonLexer

LONGEST_SOURCE = 100_000
"""Most characters of a source that are shown."""
MOST_LINES = 2_000
"""Most lines of a source that is compared with another one: the time to compare grows with their square."""
_FORMATTER = HtmlFormatter(nowrap=False, cssclass="code")
"""It escapes the text. It keeps nothing of it, and takes longer to make than to use."""


def highlighted(source: str) -> Markup:
    """Python source as HTML, cut off after `LONGEST_SOURCE` characters."""
    cut = f"\n# cut off: {len(source):,} characters in all\n" if len(source) > LONGEST_SOURCE else ""
    return _html(source[:LONGEST_SOURCE] + cut, PythonLexer(stripnl=False))


def difference(before: str, after: str, name: str) -> Markup | str:
    """The unified diff of two sources as HTML; a few words where they are equal or too long to be compared.

    Args:
        before: the older source.
        after: the newer source.
        name: what the older one is called.
    """
    if before == after:
        return f"the same text as {name}"
    old, new = before.splitlines(), after.splitlines()
    if not comparable(before, after):
        return f"too long to be compared with {name}: {len(old):,} and {len(new):,} lines"
    lines = difflib.unified_diff(old, new, name, "this attempt", lineterm="")
    return _html("\n".join(lines) + "\n", DiffLexer(stripnl=False))


def comparable(before: str, after: str) -> bool:
    """Whether two sources are short enough to be compared line by line."""
    return all(len(text) <= LONGEST_SOURCE and len(text.splitlines()) <= MOST_LINES for text in (before, after))


def highlight_css() -> Markup:
    """The style sheet of highlighted text, for light screens and paper, and for dark screens."""
    styles = {"light": "friendly", "dark": "github-dark"}
    css = {
        screen: HtmlFormatter(style=style, cssclass="code", nobackground=True).get_style_defs(".code")
        for screen, style in styles.items()
    }
    return Markup(f"{css['light']}\n@media screen and (prefers-color-scheme: dark) {{\n{css['dark']}\n}}")


def _html(text: str, lexer: DiffLexer | PythonLexer) -> Markup:
    return Markup(highlight(text, lexer, _FORMATTER))
