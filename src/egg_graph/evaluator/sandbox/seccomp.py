"""A filter of system calls: what no kernel, compiler or driver needs, and an attacker would. Refused with EPERM.

A classic BPF program, made here. It refuses what reaches into other processes, changes mounts or namespaces, loads code
into the kernel, goes round the filter (io_uring, other calling conventions), connects sockets, or sends SIGKILL: a
killed worker was then killed from outside, or by the kernel.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import socket
import struct
from typing import Literal

_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_GET_SECCOMP = 21
_FILTER = 2
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | errno.EPERM
_ABSENT = 0x00050000 | errno.ENOSYS
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_X32 = 0x40000000
"""Bit of the calls of x86-64's second convention, which would go round a filter of the first."""
_NEW_NAMESPACES = 0x7E020080
"""Every CLONE_NEW* flag of clone and unshare."""

Sockets = Literal["unconnected", "local", "loopback"]

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_REFUSED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "acct": (163, 89),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
}
"""Numbers on x86-64 and on 64-bit ARM."""
_CLONE, _UNSHARE, _CLONE3, _SOCKET, _PRCTL = (56, 220), (272, 97), (435, 435), (41, 198), (157, 167)
_SENDS_SIGNAL = (
    ((62, 129), 1),
    ((200, 130), 1),
    ((234, 131), 2),
    ((129, 138), 1),
    ((297, 240), 2),
    ((424, 424), 1),
)
"""kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal, and which argument is the signal."""
_CONNECTING = ((42, 203), (46, 211), (307, 269))
"""connect, sendmsg, sendmmsg"""
_SENDTO = (44, 206)
_FAMILIES: dict[Sockets, tuple[int, ...]] = {
    "unconnected": (socket.AF_UNIX,),
    "local": (socket.AF_UNIX,),
    "loopback": (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6),
}


def available() -> bool:
    """Whether this kernel has filters, and this machine is one whose system calls are known here."""
    libc = ctypes.CDLL(None, use_errno=True)
    if platform.machine() not in _ARCHITECTURES:
        return False
    if libc.prctl(_PR_GET_SECCOMP, 0, 0, 0, 0) < 0:
        return False
    # A filter at no address: a kernel that has filters complains of the address, one that has none of the request.
    return libc.prctl(_PR_SET_SECCOMP, _FILTER, None, 0, 0) < 0 and ctypes.get_errno() == errno.EFAULT


def install(sockets: Sockets) -> None:
    """Filter the calls of this process and its descendants. Cannot be undone; needs no_new_privs.

    Args:
        sockets: `unconnected` ones that reach nothing (CUDA's driver makes one), `local` ones (AF_UNIX), or also
            those of a `loopback`. Socket pairs always work.

    Raises:
        OSError: if the kernel refuses.
    """
    code = program(platform.machine(), sockets)
    buffer = ctypes.create_string_buffer(code, len(code))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, head, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")


def program(machine: str, sockets: Sockets) -> bytes:
    """The filter for a machine, instructions of 8 bytes each."""
    architecture, column = _ARCHITECTURES[machine]
    code = [
        _step(_LOAD, 4),
        _step(_EQUAL, architecture, 1, 0),
        _step(_RETURN, _REFUSE),
        _step(_LOAD, 0),
        _step(_AT_LEAST, _X32, 0, 1),
        _step(_RETURN, _REFUSE),
    ]
    for numbers in _REFUSED.values():
        if (number := numbers[column]) is not None:
            code += [_step(_EQUAL, number, 0, 1), _step(_RETURN, _REFUSE)]
    code += [
        _step(_EQUAL, _CLONE3[column], 0, 1),
        _step(_RETURN, _ABSENT),
    ]  # its flags are out of sight
    for numbers in (_CLONE, _UNSHARE):
        code += _on_argument(numbers[column], 0, [_step(_ANY_BIT, _NEW_NAMESPACES, 0, 1), _step(_RETURN, _REFUSE)])
    for numbers, argument in _SENDS_SIGNAL:
        code += _on_argument(numbers[column], argument, [_step(_EQUAL, signal.SIGKILL, 0, 1), _step(_RETURN, _REFUSE)])
    code += _on_argument(
        _PRCTL[column], 0, [_step(_EQUAL, _PR_SET_DUMPABLE, 0, 1), _step(_RETURN, _REFUSE)]
    )  # who hides from the fork server could hide open files, too
    if sockets == "unconnected":
        for numbers in _CONNECTING:
            code += [_step(_EQUAL, numbers[column], 0, 1), _step(_RETURN, _REFUSE)]
        halves = [(_step(_LOAD, 16 + 8 * 4 + at), _step(_EQUAL, 0, 1, 0), _step(_RETURN, _REFUSE)) for at in (0, 4)]
        code += _on_argument(_SENDTO[column], 4, [step for half in halves for step in half])  # an address is given
    allowed = [step for family in _FAMILIES[sockets] for step in (_step(_EQUAL, family, 0, 1), _step(_RETURN, _ALLOW))]
    code += _on_argument(_SOCKET[column], 0, [*allowed, _step(_RETURN, _REFUSE)])
    code.append(_step(_RETURN, _ALLOW))
    return b"".join(code)


def _on_argument(number: int, argument: int, then: list[bytes]) -> list[bytes]:
    """For one call: look at the low half of an argument (both machines keep it first); allowed if `then` is silent."""
    body = [_step(_LOAD, 16 + 8 * argument), *then, _step(_RETURN, _ALLOW)]
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)
