"""What a fork would share with the kernel: mapped memory, and files that the kernel has open.

Containment refuses new mappings, and does not see writes to old ones. So the supervisor replaces the mappings before it
forks the copy: a large file by a private mapping, all else by a duplicate in memory.

Open files for writing are memory in the copy, and the request names the written ones. Otherwise a text in the buffer of
a file would be lost without a trace, and a log would seem to be written. All others can be read, as far as the
containment lets the copy open them.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import io
import mmap
import os
import re
import stat
import sys
import zlib
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.rehearsal import linux
from tract_jupyter.rehearsal.baseline import names_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_MAPPING: Final = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) ([r-])([w-])([x-])s ([0-9a-f]+) \S+ ([0-9]+) *(.*)$", re.MULTILINE
)
_PROTECTIONS: Final = (mmap.PROT_READ, mmap.PROT_WRITE, mmap.PROT_EXEC)
_MEMORY: Final = ("/dev/zero", "/dev/shm/")  # noqa: S108 # of processes; other paths below /dev are devices
_LARGEST_DUPLICATE: Final = 64 * 1024**2
_ANONYMOUS: Final = re.compile(r"^Anonymous: +([0-9]+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Mapping:
    start: int
    size: int
    protection: int
    offset: int
    inode: int
    name: str

    @property
    def is_memory(self) -> bool:
        """False for the registers of a device, and for the queues of the Linux kernel."""
        return self.name.startswith("/") and (
            self.name.startswith(_MEMORY) or not self.name.startswith("/dev/")
        )

    def fill(self, flags: int, descriptor: int = -1) -> None:
        """Put a new mapping in the place of this one."""
        offset = self.offset if descriptor >= 0 else 0
        protection = self.protection if self.is_memory else 0
        linux.map_over(self.start, self.size, protection, flags, descriptor, offset)

    def content(self) -> bytes:
        """Return the bytes. Pages behind the end of a file are zero."""
        found = bytearray(self.size)
        with linux.opened("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC) as memory, suppress(OSError):
            for place in range(0, self.size, mmap.PAGESIZE):
                found[place : place + mmap.PAGESIZE] = os.pread(memory, mmap.PAGESIZE, self.start + place)
        return bytes(found).ljust(self.size, b"\0")


class SharedMappings:
    """The replaced mappings of this process, which is a copy."""

    def __init__(self) -> None:
        self._duplicates: list[tuple[_Mapping, int]] = []
        self._files: list[_Mapping] = []

    def replace(self) -> None:
        """Replace all shared mappings of this process."""
        for mapping in _shared():
            if not mapping.is_memory:
                mapping.fill(mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            elif mapping.size <= _LARGEST_DUPLICATE:
                self._duplicate(mapping)
            else:
                self._map_privately(mapping)

    def changed(self) -> list[str]:
        """Return the names of the mappings that the code changed in the copy."""
        changed = {one.name for one, checksum in self._duplicates if zlib.crc32(one.content()) != checksum}
        return sorted(changed | {one.name for one in self._files if _has_private_pages(one)})

    def _duplicate(self, mapping: _Mapping) -> None:
        content = mapping.content()
        flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS  # processes of the copy share it
        writable = mmap.PROT_READ | mmap.PROT_WRITE
        linux.map_over(mapping.start, mapping.size, writable, flags)
        ctypes.memmove(mapping.start, content, mapping.size)
        linux.protect(mapping.start, mapping.size, mapping.protection)
        self._duplicates.append((mapping, zlib.crc32(content)))

    def _map_privately(self, mapping: _Mapping) -> None:
        with linux.opened(mapping.name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK) as descriptor:
            if os.fstat(descriptor).st_ino != mapping.inode:
                raise OSError(f"The mapped file {mapping.name} was replaced. Map it again.")
            mapping.fill(mmap.MAP_PRIVATE, descriptor)
        self._files.append(mapping)


def _shared() -> list[_Mapping]:
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
        return [_mapping(match) for match in _MAPPING.finditer(file.read())]


def _mapping(match: re.Match[str]) -> _Mapping:
    start, end = int(match[1], 16), int(match[2], 16)
    permitted = zip(_PROTECTIONS, match.groups()[2:5], strict=True)
    protection = sum(one for one, letter in permitted if letter != "-")
    return _Mapping(start, end - start, protection, int(match[6], 16), int(match[7]), match[8])


def _has_private_pages(mapping: _Mapping) -> bool:
    """Return True if the code wrote to a private mapping of a file."""
    with open("/proc/self/smaps", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
        _, _, rest = file.read().partition(f"\n{mapping.start:x}-")
    found = _ANONYMOUS.search(rest)
    return found is None or found[1] != "0"


_MOST_OBJECTS: Final = 20_000  # of a search for open files
_LARGEST: Final = 1_000  # members of a collection that is searched
_MOST_FILES: Final = 16  # each may become as large as a file


class _ReadFile(NamedTuple):
    path: str
    identity: tuple[int, int]  # i-node and bytes
    position: int


class OpenFiles:
    """The replaced files of this process, which is a copy."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._read: dict[int, _ReadFile] = {}
        self._states: dict[int, tuple[int, int]] = {}
        self._writers: list[Any] = []

    @property
    def descriptors(self) -> set[int]:
        """The descriptors that are replaced."""
        return self._names.keys() | self._read.keys()

    def replace(self, kept: Collection[int]) -> None:
        """Replace the regular files except some: those for writing only by memory, others by nothing until `reopen`."""
        for descriptor in {int(name) for name in os.listdir("/proc/self/fd")} - {*kept}:  # noqa: PTH208
            with contextlib.suppress(OSError):
                if descriptor > 2 and stat.S_ISREG(os.fstat(descriptor).st_mode):  # noqa: PLR2004 # streams
                    self._replace(descriptor)

    def _replace(self, descriptor: int) -> None:
        name = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        if not _is_written(descriptor):
            position = os.lseek(descriptor, 0, os.SEEK_CUR)
            self._read[descriptor] = _ReadFile(name, _state(descriptor), position)
            _put(os.open(os.devnull, os.O_PATH), descriptor)  # cannot be read or written
        elif len(self._names) < _MOST_FILES:
            _put(os.memfd_create("tract-file", os.MFD_CLOEXEC), descriptor)
            self._names[descriptor] = name

    def reopen(self) -> None:
        """Open the other files for reading. The containment of this process decides which of them it may read."""
        for descriptor, file in self._read.items():
            with contextlib.suppress(OSError):
                opened = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                if _state(opened) == file.identity:
                    os.lseek(opened, file.position, os.SEEK_SET)
                    _put(opened, descriptor)
                else:
                    os.close(opened)

    def start(self, code: str, namespace: Mapping[str, Any]) -> None:
        """Write the buffers, so that only later changes count.

        The files that the code names are searched in the variables, and in the handlers of `logging`.
        """
        if self._names:
            words = names_in(code)
            variables = [value for name, value in namespace.items() if words is None or name in words]
            handlers = [reference() for reference in getattr(sys.modules.get("logging"), "_handlerList", ())]
            self._writers = list(_writers_in([*handlers, *variables]))
        self._flush()
        self._states = {descriptor: _state(descriptor) for descriptor in self._names}

    def changed(self) -> list[str]:
        """Return the names of the files that the code wrote."""
        self._flush()
        return sorted(name for descriptor, name in self._names.items() if self._has_changed(descriptor))

    def _has_changed(self, descriptor: int) -> bool:
        before = self._states[descriptor]
        try:
            file, size = _state(descriptor)
        except OSError:  # the code closed it
            return False
        return file == before[0] and size != before[1]

    def _flush(self) -> None:
        for writer in self._writers:
            with contextlib.suppress(Exception):
                if not writer.closed and writer.fileno() in self._names:
                    writer.flush()


def _writers_in(objects: Iterable[Any]) -> Iterator[Any]:
    """Yield the files with a buffer in objects, the near ones first. No code of the objects runs."""
    waiting, seen = deque(objects), set[int]()
    while waiting and len(seen) < _MOST_OBJECTS:
        one = waiting.popleft()
        kind = type(one)
        if id(one) in seen or issubclass(kind, type | ModuleType):
            continue
        seen.add(id(one))
        if kind is io.TextIOWrapper or kind is io.BufferedWriter:
            yield one
        elif kind is FunctionType:
            names = one.__globals__
            waiting += [names[name] for name in one.__code__.co_names if name in names]
            waiting += one.__closure__ or ()
        elif not (any(kind is each for each in (dict, list, set, tuple)) and len(one) > _LARGEST):
            waiting += gc.get_referents(one)


def _put(opened: int, descriptor: int) -> None:
    os.dup2(opened, descriptor, inheritable=False)
    os.close(opened)


def _is_written(descriptor: int) -> bool:
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY


def _state(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_ino, status.st_size
