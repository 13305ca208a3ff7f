"""Python text to syntax tree, in many threads."""

import ast
import threading

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What `syntax_tree` raises for a text that is no Python, or more than the parser can take."""

_LOCK = threading.RLock()


def syntax_tree(source: str | bytes) -> ast.Module:
    """Parse a module; call this, not `ast.parse`, wherever other threads may parse as well.

    CPython 3.11 counts the depth of a tree under construction once per process: a thread that starts to parse while
    another one is interrupted in the middle gets a SystemError for source that is right. So one parses at a time.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: what is in `UNREADABLE`.
    """
    with _LOCK:
        return ast.parse(source)
