"""A tripwire in the candidate's process: what a kernel never needs, noticed by Python's audit events as it happens.

It sees what the static gate cannot, such as a name put together at run time. It lives in the process it watches and
can be evaded there (a callback without a frame of the candidate's, memory written directly): the operating system's
sandbox confines, this names the line. A violation ends the process, so that no `except` can hide it.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

from egg_graph.evaluator.gate.rules import import_refused
from egg_graph.schema import Finding

EVENTS = {
    **dict.fromkeys(("open", "mmap.__new__", "ctypes.addressof", "ctypes.cdata"), "touches files or memory"),
    **dict.fromkeys(("compile", "exec", "code.__new__", "function.__new__"), "makes code"),
    **dict.fromkeys(("subprocess.Popen", "pty.spawn", "signal.pthread_kill"), "starts or ends processes"),
    **dict.fromkeys(("_thread.start_new_thread", "_thread.start_joinable_thread"), "starts a thread"),  # not in 3.11
    **dict.fromkeys(("sys._getframe", "sys._current_frames", "sys._current_exceptions"), "looks at its caller"),
    **dict.fromkeys(("gc.get_objects", "gc.get_referrers", "gc.get_referents"), "searches the process's memory"),
    **dict.fromkeys(
        ("sys.settrace", "sys.setprofile", "sys.addaudithook", "sys.monitoring.register_callback"), "watches its caller"
    ),
    **dict.fromkeys(("time.sleep",), "waits instead of computing"),
    **dict.fromkeys(("pickle.find_class", "marshal.loads", "marshal.load"), "unpacks code"),
}
"""Audit events that a candidate's code may not cause -> what it does then."""
FAMILIES = ("os.", "socket.", "ctypes.", "shutil.", "tempfile.", "glob.", "urllib.", "ftplib.", "http.", "resource.",
            "fcntl.", "pathlib.", "syslog.", "sqlite3.", "webbrowser.", "cpython.")  # fmt: skip
"""Of these, every event."""
MAKES_CLASSES = frozenset({"dataclasses.py", "enum.py", "typing.py", "typing_extensions.py", "functools.py",
                           "collections/__init__.py", "abc.py"})  # fmt: skip
"""Files of the standard library that make classes by compiling text."""
EVALUATES_NAMES = frozenset({"typing.py", "typing_extensions.py", "annotationlib.py"})
"""Those that compile an annotation's text to remember it, and run it only when asked for what it means."""
READS_SOURCE = frozenset({"linecache.py", "inspect.py", "tokenize.py"})
"""Files of the standard library that look up source lines, for Triton and for messages."""
TRANSPARENT = frozenset({"contextlib.py", "functools.py", "_contextlib.py"})
"""Files that only call what they are given."""
CODE = frozenset({"compile", "exec", "code.__new__", "function.__new__", "sys._getframe"})
IMPORT_STATEMENT = frozenset({"_find_and_load", "_handle_fromlist"})
"""Functions of importlib that the statement calls."""
NOT_FOR_LIBRARIES = frozenset({"compile", "exec", "open", "subprocess.Popen", "pickle.find_class", "mmap.__new__"})
"""What PyTorch or NumPy may not do on a direct call of a candidate: read files, build and run other code."""
READS_SCHEMAS = ("torch", "operator_schemas.py")
"""Where PyTorch compiles the type names of its own operators' schemas: fake tensors ask for them."""
NOT_IN_TRITON = frozenset({("build.py", "*"), ("cache.py", "*"), ("testing.py", "*"), ("compiler.py", "compile")})
"""Functions of Triton that a candidate may not call itself; through the launch of a kernel they may."""

STDLIB = sysconfig.get_paths()["stdlib"]
OWNERS: list[tuple[str, str]] = [("evaluator", str(Path(__file__).parents[1]))]
"""Whose files lie where; libraries are added when the first file is watched."""

_channel: int | None = None
_watched: set[str] = set()


def report_to(channel: int) -> None:
    """Say where the verdict goes: descriptor of the pipe to the fork server. Without it `watch` does nothing."""
    global _channel
    _channel = channel


def watch(path: Path) -> None:
    """From now on, and for good, watch what the code of this file does."""
    if _channel is None or str(path) in _watched:
        return
    _watched.add(str(path))
    if len(OWNERS) == 1:
        for name in ("torch", "triton", "numpy"):
            OWNERS.append((name, _folder(sys.modules.get(name))))
        OWNERS.append(("stdlib", STDLIB))
    sys.addaudithook(_hook(str(path), _channel))


def _folder(module: ModuleType | None) -> str:
    file = getattr(module, "__file__", None)
    return str(Path(file).parent) if file else "/nowhere"


def _hook(candidate: str, channel: int) -> Callable[[str, tuple[Any, ...]], None]:
    """The hook, with all it needs bound here rather than in a module that a candidate could change."""
    judge, watched, families, getframe = _violation, frozenset(EVENTS), FAMILIES, sys._getframe
    busy = False

    def hook(event: str, details: tuple[Any, ...]) -> None:
        nonlocal busy
        if busy or not (event in watched or event == "import" or event.startswith(families)):
            return
        busy = True  # looking at frames is an audit event, too
        try:
            finding = judge(event, details, getframe(1), candidate)
        finally:
            busy = False
        if finding is not None:
            busy = True
            end(finding, channel)

    return hook


def end(finding: Finding, channel: int) -> NoReturn:
    """Report the finding as this process's answer and end it."""
    os.write(2, f"{finding.kind}: {finding.message} ({finding.where})\n".encode())
    os.write(channel, json.dumps({"finding": finding.model_dump()}).encode() + b"\n")
    os._exit(0)


def _violation(event: str, details: tuple[Any, ...], frame: FrameType | None, candidate: str) -> Finding | None:
    """What is wrong with an event, judged by the nearest frame of the candidate and what it called directly."""
    between: list[FrameType] = []
    while frame is not None and frame.f_code.co_filename != candidate:
        between.append(frame)
        frame = frame.f_back
    if frame is None or _allowed(event, details, between):
        return None
    where = f"line {frame.f_lineno}, in {frame.f_code.co_name}"
    if event == "import":
        why = import_refused(str(details[0])) or "not needed by a kernel"
        return Finding(kind="forbidden_import", message=f"imports {details[0]} at run time: {why}", where=where)
    does = EVENTS.get(event, "reaches for the operating system")
    told = f" ({', '.join(repr(d)[:60] for d in details[:1])})" if event in ("open", "compile", "ctypes.dlopen") else ""
    return Finding(kind="forbidden_construct", message=f"{does} at run time: {event}{told}", where=where)


def _allowed(event: str, details: tuple[Any, ...], between: list[FrameType]) -> bool:
    """`between`: frames from the event outwards, up to the candidate's own."""
    places = [_place(frame) for frame in between]
    if event == "import":
        by_library = any(owner not in ("importlib", "unknown") for owner, _ in places)
        return details[0] != "torch.utils.cpp_extension" if by_library else not import_refused(str(details[0]))
    if places and places[-1][0] == "importlib" and between[-1].f_code.co_name not in IMPORT_STATEMENT:
        return False  # importlib's functions import without an import event
    if any(owner == "importlib" for owner, _ in places):
        return True  # what a module does when it is imported; its import was judged
    entries = [(place, frame) for place, frame in zip(places, between, strict=True) if _speaks(place)]
    if not entries:
        return False
    (owner, name), frame = entries[-1]
    if owner == "evaluator":
        return True
    if owner == "triton":
        return not {(name, "*"), (name, frame.f_code.co_name)} & NOT_IN_TRITON
    reads_source = event == "open" and any(o == "stdlib" and n in READS_SOURCE for o, n in places)
    if owner in ("torch", "numpy"):
        if event in ("compile", "exec") and places[0] == READS_SCHEMAS != entries[-1][0]:
            return True
        return reads_source or (event not in NOT_FOR_LIBRARIES and not event.startswith(FAMILIES))
    if name == "warnings.py":
        return reads_source or event == "sys._getframe"
    if event == "exec" and places[0][0] == "stdlib" and places[0][1] in EVALUATES_NAMES:
        return False
    return name in MAKES_CLASSES and event in CODE


def _speaks(place: tuple[str, str]) -> bool:
    """Whether a frame says who asked for something: neither unknown nor a mere go-between."""
    return place[0] not in ("unknown", "importlib") and place[1] not in TRANSPARENT


def _place(frame: FrameType) -> tuple[str, str]:
    """Whose code a frame runs, and its file: the name, with its folder for packages of the standard library."""
    file = frame.f_code.co_filename
    if "importlib" in file and file.startswith(("<frozen", STDLIB)):
        return "importlib", ""
    for owner, folder in OWNERS:
        if file.startswith(folder):
            name = file[len(folder) :].lstrip("/")
            return owner, name if owner == "stdlib" else name.rsplit("/", 1)[-1]
    return (
        ("stdlib", file.strip("<>").removeprefix("frozen ") + ".py") if file.startswith("<frozen") else ("unknown", "")
    )
