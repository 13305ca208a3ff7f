"""The sandbox policy round every candidate's process: what stands on this machine, and how a process goes behind it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from egg_graph.evaluator.sandbox import confine, landlock, namespaces, seccomp
from egg_graph.evaluator.sandbox.belongings import Belongings, belongings
from egg_graph.evaluator.sandbox.namespaces import Space

Mechanism = Literal["processes", "network", "files", "calls"]
MECHANISMS: tuple[Mechanism, ...] = ("processes", "network", "files", "calls")
"""Namespaces of processes and of the network, Landlock, seccomp."""


@dataclass(frozen=True)
class SandboxPolicy:
    """What this machine grants."""

    space: Space
    landlock: int
    """Version of its interface; 0 where there is none."""
    seccomp: bool

    @cached_property
    def needed(self) -> Belongings:
        """Asked for once, in the fork server, when all is imported."""
        return belongings(own_proc=self.space.processes)

    def enter(self, folder: str, *, tools: bool) -> None:
        """Put this process behind the sandbox policy, for good; it must have a single thread.

        Args:
            folder: the one place where it may write.
            tools: whether NVIDIA's profiler or sanitizer runs in it: they talk over the loopback and need what right
                to the counters this process has.

        Raises:
            OSError: if the kernel refuses what it granted before: then nothing may run here.
        """
        if self.space.processes:
            namespaces.settle(seal_proc=tools)
        confine.drop_rights(keep_counters=tools)
        confine.no_new_privileges()
        if self.landlock:
            # CUDA's driver names its threads in /proc; under a tool it runs in a process that is still to come.
            needed = self.needed
            landlock.restrict(
                readable=needed.readable,
                devices=needed.devices,
                writable=(folder, namespaces.SHARED_MEMORY),
                changeable=("/proc",) if tools and self.space.processes else ("/proc/self/task",),
                listable=needed.listable if tools else (),
            )
        if self.seccomp:
            seccomp.install(("loopback" if self.space.network else "local") if tools else "unconnected")

    def words(self, without: Collection[str] = ()) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What confines a candidate, and what does not and why; short sentences.

        Args:
            without: mechanisms that were switched off.
        """
        holds = ["time, memory, processes, open files and disk space are limited, and what is left over is killed"]
        lacks = []

        def tell(name: Mechanism, stands: bool, good: str, bad: str, cure: str) -> None:
            if stands:
                holds.append(good)
            else:
                lacks.append(f"{bad} ({'switched off' if name in without else cure})")

        tell(
            "files",
            bool(self.landlock),
            f"it reads no files but libraries, and writes only a folder of its own (Landlock {self.landlock})",
            "a candidate can read and write what you can",
            "needs Linux 5.19 with Landlock",
        )
        tell(
            "processes",
            self.space.processes,
            "it sees no processes but its own, and ends as a whole (namespaces of processes and mounts)",
            "a candidate sees your other processes",
            "this kernel or container allows no namespaces",
        )
        tell(
            "network",
            self.space.network or self.seccomp,
            "it has no network" + (" (namespace)" if self.space.network else " (sockets refused)"),
            "a candidate reaches the network",
            "this kernel or container allows neither namespaces nor seccomp",
        )
        tell(
            "calls",
            self.seccomp,
            "calls that reach into other processes, mounts and the kernel are refused (seccomp)",
            "system calls are not filtered",
            "needs Linux with seccomp on x86-64 or 64-bit ARM",
        )
        if not self.space.processes and (self.landlock < landlock.SCOPES_ABI):
            lacks.append("a candidate can signal your other processes (needs namespaces, or Linux 6.12)")
        if 0 < self.landlock < 3:
            lacks.append("a candidate can cut off files that you can write (needs Linux 6.2)")
        return tuple(holds), tuple(lacks)


def find_policy(without: Collection[str] = ()) -> SandboxPolicy:
    """The strongest sandbox policy that this process can put up. Forks for a moment: this process should be small.

    Args:
        without: mechanisms to leave out, to see what is left.

    Raises:
        ValueError: for a name that is none of `MECHANISMS`.
    """
    if unknown := set(without) - set(MECHANISMS):
        raise ValueError(f"no mechanism of confinement: {', '.join(sorted(unknown))}")
    abi = 0 if "files" in without else landlock.abi()
    return SandboxPolicy(
        space=namespaces.find_space(processes="processes" not in without, network="network" not in without),
        landlock=abi if abi >= landlock.LEAST_ABI else 0,
        seccomp="calls" not in without and seccomp.available(),
    )
