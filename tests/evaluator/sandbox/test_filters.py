"""The filter's program, as the kernel would read it."""

import struct

import pytest

from egg_graph.evaluator.sandbox import landlock, seccomp

ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
X86, ARM = 0xC000003E, 0xC00000B7


def _verdict(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """A BPF machine for the five instructions that are used."""
    data = struct.pack("<iIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    steps = list(struct.iter_unpack("HBBI", program))
    at, held = 0, 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == 0x20:
            (held,) = struct.unpack_from("<I", data, value)
        elif code == 0x06:
            return value
        else:
            true = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code]
            at += if_true if true else if_false


@pytest.mark.parametrize(
    ("number_x86", "number_arm", "arguments", "expected"),
    [
        (0, 63, (), ALLOW),  # read
        (101, 117, (), EPERM),  # ptrace
        (425, 425, (), EPERM),  # io_uring_setup
        (435, 435, (), ENOSYS),  # clone3
        (56, 220, (0x11,), ALLOW),  # fork
        (56, 220, (0x10000011,), EPERM),  # with a user namespace
        (272, 97, (0x400,), ALLOW),  # unshare of files
        (272, 97, (0x00020000,), EPERM),  # of mounts
        (62, 129, (5, 15), ALLOW),  # SIGTERM
        (62, 129, (5, 9), EPERM),  # SIGKILL
        (234, 131, (5, 5, 9), EPERM),
        (157, 167, (15,), ALLOW),  # a thread's name
        (157, 167, (4,), EPERM),  # PR_SET_DUMPABLE
        (41, 198, (1,), ALLOW),  # AF_UNIX
        (41, 198, (2,), EPERM),  # AF_INET
        (42, 203, (), EPERM),  # connect
        (44, 206, (3, 0, 0, 0, 0), ALLOW),  # send
        (44, 206, (3, 0, 0, 0, 1 << 32), EPERM),  # sendto
    ],
)
def test_the_filter_refuses_what_it_says_on_both_machines(
    number_x86: int, number_arm: int, arguments: tuple[int, ...], expected: int
) -> None:
    for machine, architecture, number in (("x86_64", X86, number_x86), ("aarch64", ARM, number_arm)):
        assert _verdict(seccomp.program(machine, "unconnected"), architecture, number, *arguments) == expected, machine


def test_other_conventions_do_not_go_round_it() -> None:
    program = seccomp.program("x86_64", "loopback")
    assert _verdict(program, 0x40000003, 3) == EPERM  # 32-bit
    assert _verdict(program, X86, 0x40000000 | 39) == EPERM  # x32
    assert [_verdict(program, X86, 41, family) for family in (1, 2, 10)] == [ALLOW] * 3
    assert _verdict(program, X86, 41, 40) == EPERM  # AF_VSOCK
    assert _verdict(program, X86, 42) == ALLOW
    assert _verdict(seccomp.program("x86_64", "local"), X86, 41, 2) == EPERM


def test_landlocks_version_is_a_number() -> None:
    assert landlock.abi() >= 0
