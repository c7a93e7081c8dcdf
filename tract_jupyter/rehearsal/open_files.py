"""Files that the kernel has open.

Files for writing are memory in the copy, and the request names the written ones. Otherwise a text in the buffer of a
file would be lost without a trace, and a log would seem to be written. All others can be read, as far as the
containment lets the copy open them.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

_WRITERS: Final = frozenset({io.TextIOWrapper, io.BufferedWriter})
_MOST: Final = 16  # each may become as large as a file


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
        elif len(self._names) < _MOST:
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

    def start(self) -> None:
        """Write the buffers, so that only later changes count."""
        if self._names:
            # by type: a proxy may raise anything if it is asked for its class
            self._writers = [one for one in gc.get_objects() if type(one) in _WRITERS]
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


def _put(opened: int, descriptor: int) -> None:
    """Give an open file another number."""
    os.dup2(opened, descriptor, inheritable=False)
    os.close(opened)


def _is_written(descriptor: int) -> bool:
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY


def _state(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_ino, status.st_size
