"""The sandbox policy: which mechanisms of confinement this machine grants, and how a process enters them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from egg_graph.evaluator.sandbox import confine, landlock, namespaces, seccomp
from egg_graph.evaluator.sandbox.allowed_paths import AllowedPaths, find_allowed_paths
from egg_graph.evaluator.sandbox.namespaces import Namespaces

Mechanism = Literal["processes", "network", "files", "calls"]
MECHANISMS: tuple[Mechanism, ...] = ("processes", "network", "files", "calls")
"""Pid and mount namespaces, network namespace, Landlock, seccomp."""


@dataclass(frozen=True)
class SandboxPolicy:
    """The mechanisms that this machine grants."""

    namespaces: Namespaces
    landlock_abi: int
    """Version of the kernel's Landlock interface; 0 where there is none."""
    seccomp: bool
    """Whether system calls are filtered."""

    @cached_property
    def allowed_paths(self) -> AllowedPaths:
        """The files that children need. Read it first in the fork server, once everything is imported."""
        return find_allowed_paths(own_proc=self.namespaces.processes)

    def enter(self, folder: str, *, tools: bool) -> None:
        """Confine this process for good. It must have a single thread.

        Args:
            folder: the one folder where it may write.
            tools: whether NVIDIA's profiler or sanitizer runs in it. These talk over the loopback interface and keep
                any right to hardware counters that this process has.

        Raises:
            OSError: if the kernel refuses what it granted before. Nothing may run in this process then.
        """
        if self.namespaces.processes:
            namespaces.enter_mount_namespace(read_only_proc=tools)
        confine.drop_capabilities(keep_counters=tools)
        confine.no_new_privileges()
        if self.landlock_abi:
            # CUDA's driver writes its threads' names to /proc; under a tool it runs in a process yet to be started.
            allowed = self.allowed_paths
            landlock.restrict(
                readable=allowed.readable,
                devices=allowed.devices,
                writable=(folder, namespaces.SHARED_MEMORY),
                changeable=("/proc",) if tools and self.namespaces.processes else ("/proc/self/task",),
                listable=allowed.listable if tools else (),
            )
        if self.seccomp:
            seccomp.install(("loopback" if self.namespaces.network else "local") if tools else "unconnected")

    def describe(self, without: Collection[str] = ()) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what confines a candidate, and what does not and why, in short sentences.

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
            bool(self.landlock_abi),
            f"it reads no files but libraries, and writes only a folder of its own (Landlock {self.landlock_abi})",
            "a candidate can read and write what you can",
            "needs Linux 5.19 with Landlock",
        )
        tell(
            "processes",
            self.namespaces.processes,
            "it sees no processes but its own, and ends as a whole (namespaces of processes and mounts)",
            "a candidate sees your other processes",
            "this kernel or container allows no namespaces",
        )
        tell(
            "network",
            self.namespaces.network or self.seccomp,
            "it has no network" + (" (namespace)" if self.namespaces.network else " (sockets refused)"),
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
        if not self.namespaces.processes and self.landlock_abi < landlock.SCOPES_ABI:
            lacks.append("a candidate can signal your other processes (needs namespaces, or Linux 6.12)")
        if 0 < self.landlock_abi < 3:
            lacks.append("a candidate can cut off files that you can write (needs Linux 6.2)")
        return tuple(holds), tuple(lacks)


def find_policy(without: Collection[str] = ()) -> SandboxPolicy:
    """Return the strongest sandbox policy that this machine grants. It forks, so the calling process should be small.

    Args:
        without: mechanisms to leave out, to see what the others hold.

    Raises:
        ValueError: for a name that is none of `MECHANISMS`.
    """
    if unknown := set(without) - set(MECHANISMS):
        raise ValueError(f"no mechanism of confinement: {', '.join(sorted(unknown))}")
    abi = 0 if "files" in without else landlock.abi()
    return SandboxPolicy(
        namespaces=namespaces.find_namespaces(processes="processes" not in without, network="network" not in without),
        landlock_abi=abi if abi >= landlock.LEAST_ABI else 0,
        seccomp="calls" not in without and seccomp.available(),
    )
