"""The limits of a rehearsal, and the meter that the copy's supervisor reads."""

from __future__ import annotations

import os
import resource
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tract_jupyter.rehearsal.linux import opened

_MB: Final = 1024**2
_GB: Final = 1024**3
_UNIT: Final = 1024  # of /proc/PID/status
_LONGEST: Final = 1 << 16
_FILE: Final = os.O_RDONLY | os.O_CLOEXEC
_PAUSE: Final = 20  # between two walks, in times the length of one


@dataclass(frozen=True, slots=True)
class RehearsalLimits:
    """The limits of one rehearsal. Reaching one ends it.

    Attributes:
        seconds: Duration, without the time of tool calls.
        cpu_seconds: CPU time of each process.
        memory: Bytes that the copy may use in addition to the kernel's memory.
        processes: Number of processes.
        output: Bytes of text output. The rest is cut, and the code continues.
        disk: Bytes of written files.
        values: Bytes of all received variables.
    """

    seconds: float = 20.0
    cpu_seconds: int = 20
    memory: int = 4 * _GB
    processes: int = 64
    output: int = 1_000_000
    disk: int = 512 * _MB
    values: int = 1 * _GB


def limit_this_process(limits: RehearsalLimits) -> None:
    """Apply the limits that the operating system can keep: CPU time, memory of one process, size of files."""
    with open("/proc/self/status", encoding="utf-8", errors="replace") as status:  # noqa: PTH123
        memory = _sizes(status.read()).get("VmData", 0) + limits.memory
    _lower(resource.RLIMIT_DATA, memory)
    _lower(resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1)
    _lower(resource.RLIMIT_FSIZE, limits.disk)
    _lower(resource.RLIMIT_CORE, 0)


def _lower(kind: int, soft: int, hard: int | None = None) -> None:
    _, most = resource.getrlimit(kind)
    wanted = soft if hard is None else hard
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    resource.setrlimit(kind, (min(soft, wanted), wanted))


class CopyMeter:
    """Counts the processes and the memory of a copy, from the process above it.

    It keeps its own `/proc`, because the copy mounts another one.
    """

    def __init__(self, limits: RehearsalLimits) -> None:
        self._limits = limits
        self._proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._start: dict[int, int] = {}
        self._next_walk = 0.0

    def exceeded(self, first: int) -> str:
        """Return the limit that a process and all processes below it exceed, as a short text; empty if none."""
        parents = self._tree(first)
        if len(parents) > self._limits.processes:
            return f"more than {self._limits.processes} processes"
        grown, used = 0, {0: sys.maxsize}
        for process, parent in parents.items():
            used[process] = self._used(process)
            # a new process shares the memory of its parent, and may have grown before it is seen
            start = self._start.setdefault(process, min(used[process], used[parent]))
            grown += max(0, used[process] - start)
        del used[0]
        if grown > self._limits.memory or self._own(used) > self._limits.memory:
            return f"more than {self._limits.memory // _MB:,} MB of memory"
        return ""

    def _used(self, process: int) -> int:
        status = _sizes(self._read(f"{process}/status"))
        return status.get("RssAnon", 0) + status.get("RssShmem", 0)

    def _own(self, used: dict[int, int]) -> int:
        """Return the memory that processes share with no other: a write to inherited memory copies it.

        Linux walks all pages for this number. So it is read only if it can exceed the limit, and rarely if the walk is
        slow.
        """
        began = time.monotonic()
        if sum(used.values()) <= self._limits.memory or began < self._next_walk:
            return 0
        own = 0
        for process in used:
            sizes = _sizes(self._read(f"{process}/smaps_rollup"))
            # a process may hide its pages
            own += sizes.get("Private_Dirty", 0) if sizes else self._used(process)
        self._next_walk = began + _PAUSE * (time.monotonic() - began)
        return own

    def read_memory(self, process: int, address: int, size: int) -> bytes:
        """Return some memory of a process. Empty if it cannot be read."""
        with suppress(OSError, OverflowError), opened(f"{process}/mem", _FILE, folder=self._proc) as memory:
            return os.pread(memory, size, address)
        return b""

    def _tree(self, first: int) -> dict[int, int]:
        """Return the parent of each process, parents first. That of the first one is 0."""
        parents = {first: 0}
        processes = [first]
        for process in processes:  # grows
            for thread in self._threads(process):
                children = map(int, self._read(f"{process}/task/{thread}/children").split())
                new = [child for child in children if child not in parents]
                parents.update(dict.fromkeys(new, process))
                processes += new
        return parents

    def _threads(self, process: int) -> list[str]:
        with suppress(OSError), opened(f"{process}/task", folder=self._proc) as folder:
            return os.listdir(folder)  # noqa: PTH208 # a descriptor
        return []

    def _read(self, path: str) -> str:
        with suppress(OSError), opened(path, _FILE, folder=self._proc) as file:  # until the process has ended
            return os.read(file, _LONGEST).decode(errors="replace")
        return ""


def _sizes(status: str) -> dict[str, int]:
    """Return the sizes in a text of `/proc/PID/status`, in bytes."""
    rows = (line.partition(":") for line in status.splitlines() if line.endswith("kB"))
    return {name: int(value.split()[0]) * _UNIT for name, _, value in rows}
