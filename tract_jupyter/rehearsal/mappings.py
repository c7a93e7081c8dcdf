"""Memory that the kernel shares with files and other processes: mapped files, locks and arrays of `multiprocessing`.

A fork shares it, too. Containment refuses new mappings, and does not see writes to old ones. So the supervisor replaces
them before it forks the copy: a large file by a private mapping, all else by a duplicate in memory.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tract_jupyter.rehearsal import linux

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
        """Replace all shared mappings of this process.

        Raises:
            OSError: a large mapping is not of a file that can be opened.
        """
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
