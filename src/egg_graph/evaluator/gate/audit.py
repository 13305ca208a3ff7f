"""A tripwire in the candidate's process: Python's audit events reveal what a kernel never needs.

It sees what the static gate cannot, such as a name built at run time. It can be evaded, because it lives in the process
it watches (a callback without a frame of the candidate, memory written directly): the operating system's sandbox
confines the candidate, and the tripwire names the line. A violation ends the process, so that no `except` can hide it.
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

from egg_graph.evaluator.gate.rules import ON_THE_WAY, import_refused
from egg_graph.evaluator.wire.faults import KernelFault
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
"""Audit events that a candidate's code may not cause -> what such code does."""
FAMILIES = ("os.", "socket.", "ctypes.", "shutil.", "tempfile.", "glob.", "urllib.", "ftplib.", "http.", "resource.",
            "fcntl.", "pathlib.", "syslog.", "sqlite3.", "webbrowser.", "cpython.")  # fmt: skip
"""Prefixes of audit events that a candidate's code may not cause."""
MAKES_CLASSES = frozenset({"dataclasses.py", "enum.py", "typing.py", "typing_extensions.py", "functools.py",
                           "collections/__init__.py", "abc.py"})  # fmt: skip
"""Files of the standard library that compile text to make classes."""
EVALUATES_NAMES = frozenset({"typing.py", "typing_extensions.py", "annotationlib.py"})
"""Files that compile an annotation's text to store it. Running it is refused."""
READS_SOURCE = frozenset({"linecache.py", "inspect.py", "tokenize.py"})
"""Files of the standard library that read source lines, for Triton and for messages."""
TRANSPARENT = frozenset({"contextlib.py", "functools.py", "_contextlib.py"})
"""Files of the standard library that only call the functions they are given."""
NAMES_ITS_CALLER = frozenset({"warnings.py", "logging/__init__.py"})
"""Files of the standard library that look for the line that a message is from."""
CODE = frozenset({"compile", "exec", "code.__new__", "function.__new__", "sys._getframe"})
"""Events that `MAKES_CLASSES` may cause."""
IMPORT_STATEMENT = frozenset({"_find_and_load", "_handle_fromlist"})
"""importlib's functions that the import statement calls."""
NOT_FOR_LIBRARIES = frozenset({"compile", "exec", "open", "subprocess.Popen", "pickle.find_class", "mmap.__new__"})
"""Events that a candidate may not cause by calling PyTorch or NumPy: reading files, building and running code."""
READS_SCHEMAS = ("torch", "operator_schemas.py")
"""PyTorch's file that compiles the type names of operator schemas, which fake tensors ask for."""
NOT_IN_TRITON = frozenset({("build.py", "*"), ("cache.py", "*"), ("testing.py", "*"), ("compiler.py", "compile")})
"""Triton's functions that a candidate may not call directly; the launch of a kernel may call them."""

STDLIB = sysconfig.get_paths()["stdlib"]
OWNERS: list[tuple[str, str]] = [("evaluator", str(Path(__file__).parents[1]))]
"""Owner of code -> folder of its files. `watch` adds the libraries."""

_channel: int | None = None
_watched: set[str] = set()


def report_to(channel: int) -> None:
    """Set the file descriptor on which a violation is reported. Without it `watch` does nothing."""
    global _channel
    _channel = channel


def watch(path: Path) -> None:
    """Watch what the code of this file does, for the rest of the process."""
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
    """Make the audit hook. It binds all it needs here, because a candidate could change this module."""
    violation, watched, families, getframe = _violation, frozenset(EVENTS), FAMILIES, sys._getframe
    busy = False

    def hook(event: str, details: tuple[Any, ...]) -> None:
        nonlocal busy
        if busy or not (event in watched or event == "import" or event.startswith(families)):
            return
        busy = True  # reading frames raises audit events too
        try:
            finding = violation(event, details, getframe(1), candidate)
        finally:
            busy = False
        if finding is not None:
            busy = True
            end(finding, channel)

    return hook


def watched() -> frozenset[str]:
    """Return the files whose code is watched."""
    return frozenset(_watched)


def refuse(finding: Finding) -> NoReturn:
    """End the process with a finding, as the tripwire does.

    Raises:
        KernelFault: outside of a candidate's child, where nobody would hear of it.
    """
    if _channel is not None:
        end(finding, _channel)
    raise KernelFault(finding.kind, finding.message, finding.where, finding.cure)


def end(finding: Finding, channel: int) -> NoReturn:
    """Report the finding as this process's answer, and end the process."""
    os.write(2, f"{finding.kind}: {finding.message} ({finding.where})\n".encode())
    os.write(channel, json.dumps({"finding": finding.model_dump()}).encode() + b"\n")
    os._exit(0)


def _violation(event: str, details: tuple[Any, ...], frame: FrameType | None, candidate: str) -> Finding | None:
    """Return what is wrong with an event: judged by the candidate's nearest frame and what that called directly."""
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
    """Whether an event is allowed.

    Args:
        event: its name.
        details: its arguments.
        between: frames from the event outwards, up to the candidate's own.
    """
    places = [_place(frame) for frame in between]
    if event == "import":
        by_library = any(owner not in ("importlib", "unknown") for owner, _ in places)
        if by_library:
            return details[0] != "torch.utils.cpp_extension"
        return details[0] in ON_THE_WAY or not import_refused(str(details[0]))
    if places and places[-1][0] == "importlib" and between[-1].f_code.co_name not in IMPORT_STATEMENT:
        return False  # importlib's functions import without an import event
    if any(owner == "importlib" for owner, _ in places):
        return True  # a module's top level; its import was judged already
    entries = [(place, frame) for place, frame in zip(places, between, strict=True) if _identifies_caller(place)]
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
    if name in NAMES_ITS_CALLER:
        return reads_source or event == "sys._getframe"
    if event == "exec" and places[0][0] == "stdlib" and places[0][1] in EVALUATES_NAMES:
        return False
    return name in MAKES_CLASSES and event in CODE


def _identifies_caller(place: tuple[str, str]) -> bool:
    """Whether a frame tells who caused the event: its owner is known, and it is more than a go-between."""
    return place[0] not in ("unknown", "importlib") and place[1] not in TRANSPARENT


def _place(frame: FrameType) -> tuple[str, str]:
    """Return the owner of a frame's code, and its file name (for the standard library, its path below the library)."""
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
