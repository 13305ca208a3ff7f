"""What a candidate's process printed or raised, without the frames of everybody else's code."""

import re

CANDIDATE = "candidate.py"
"""Name of the file that holds the candidate's source in the evaluator's processes."""

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line \d+')
_TRACEBACK = "Traceback (most recent call last):"
_BETWEEN = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)


def own_frames(log: str) -> str:
    """Keep of each traceback the frames of the candidate's file and the error; repeated lines and errors once.

    Text outside of tracebacks stays. A log that begins inside a traceback, cut off before it, is read as one.
    """
    lines = _whole(log.splitlines())
    kept: list[str] = []
    inside = own = False
    for line in lines:
        frame = _FRAME.match(line)
        if line.strip() == _TRACEBACK or line.strip() in _BETWEEN:
            inside, own = True, False
        elif frame:
            inside, own = True, frame["file"].endswith(f"/{CANDIDATE}") or frame["file"] == CANDIDATE
            if own:
                kept.append(line.replace(frame["file"], CANDIDATE))
        elif inside and line.startswith("    "):
            if own:
                kept.append(line)
        else:
            inside = own = inside and not line.strip()
            kept.append(line)
    return collapse("\n".join(kept))


def _whole(lines: list[str]) -> list[str]:
    """Leave out what stands before the first frame of a traceback whose head was cut off."""
    first = next((n for n, line in enumerate(lines) if _FRAME.match(line)), 0)
    cut = all(line.startswith("    ") for line in lines[1:first])
    return lines[first:] if cut and lines[:1] != [_TRACEBACK] else lines


def collapse(text: str) -> str:
    """Tell each line once, at its first place, with a count where it came several times. Blank lines become one."""
    lines = text.splitlines()
    counts: dict[str, int] = {}
    for line in lines:
        counts[line] = counts.get(line, 0) + 1
    told: list[str] = []
    for line in lines:
        count = counts.pop(line, 0)
        if count:
            told.append(f"{line}  [{count} times]" if count > 1 and line.strip() else line)
    return "\n".join(told)
