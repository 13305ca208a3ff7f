"""Landlock: a process gives up every file but those named, for itself and its descendants.

Kernels with ABI 6 and later also cut off signals and abstract sockets that lead outside. Landlock needs no
capabilities. It is three system calls that libc does not wrap.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same numbers on every architecture
_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_FIRST = (1 << 13) - 1
"""All rights of Landlock's first version; they include making and removing files of every kind."""
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL_DEVICE
_MAKE_DEVICES = (1 << 6) | (1 << 11)
_SCOPES = 0b11
"""Abstract sockets and signals."""
LEAST_ABI = 2
"""First version that lets a file be renamed into another folder, which Triton's cache does."""
SCOPES_ABI = 6
"""First version that cuts off signals and abstract sockets."""


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def abi() -> int:
    """Return the version of Landlock in this kernel; 0 where there is none."""
    return max(0, _syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION))


def restrict(
    *,
    readable: Iterable[str],
    devices: Iterable[str],
    writable: Iterable[str],
    changeable: Iterable[str] = (),
    listable: Iterable[str] = (),
) -> None:
    """Take every other path from this thread and its descendants. Cannot be undone; needs no_new_privs.

    Args:
        readable: files and folders to read, and to run programs from.
        devices: device files to read, write and control.
        writable: folders for files of any plain kind; nothing in them can be run as a program.
        changeable: files and folders whose existing files may be read and written.
        listable: folders whose file names may be listed.

    Raises:
        OSError: if the kernel refuses.
    """
    version = abi()
    files = _FIRST | _REFER | (_TRUNCATE if version >= 3 else 0) | (_IOCTL_DEVICE if version >= 5 else 0)
    ruleset = _Ruleset(files, 0, _SCOPES if version >= SCOPES_ABI else 0)
    size = 24 if version >= SCOPES_ABI else 8
    fd = _checked(_CREATE, ctypes.byref(ruleset), ctypes.c_size_t(size), 0)
    try:
        for paths, rights in (
            (readable, _EXECUTE | _READ | _LIST),
            (devices, _READ | _WRITE | _LIST | _IOCTL_DEVICE),
            (writable, files & ~_EXECUTE & ~_MAKE_DEVICES & ~_IOCTL_DEVICE),
            (changeable, _READ | _WRITE | _TRUNCATE | _LIST),
            (listable, _LIST),
        ):
            for path in paths:
                _add(fd, path, rights & files)
        _checked(_RESTRICT, fd, 0)
    finally:
        os.close(fd)


def _add(ruleset: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        return  # what cannot be opened cannot be granted
    try:
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            rights &= _FILE_RIGHTS
        rule = _Beneath(rights, parent)
        _checked(_ADD, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(parent)


def _checked(*arguments: object) -> int:
    result = _syscall(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"Landlock (system call {arguments[0]})")
    return result


def _syscall(*arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return int(libc.syscall(*arguments))
