"""Files that the kernel has open for writing: in the copy, they are memory, and the request names the written ones.

Otherwise a text in the buffer of a file would be lost without a trace, and a log would seem to be written.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import stat
from pathlib import Path
from typing import Any, Final

_MOST: Final = 16  # each may become as large as a file


class OpenFiles:
    """The replaced files of this process, which is a copy."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._states: dict[int, tuple[int, int]] = {}
        self._writers: list[Any] = []

    @property
    def descriptors(self) -> set[int]:
        """The descriptors that are memory now."""
        return set(self._names)

    def replace(self) -> None:
        """Replace the regular files that are open for writing only."""
        for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
            with contextlib.suppress(OSError):
                if descriptor > 2 and len(self._names) < _MOST and _is_written(descriptor):  # noqa: PLR2004 # streams
                    self._replace(descriptor)

    def _replace(self, descriptor: int) -> None:
        name = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        memory = os.memfd_create("tract-file", os.MFD_CLOEXEC)
        os.dup2(memory, descriptor, inheritable=False)
        os.close(memory)
        self._names[descriptor] = name

    def start(self) -> None:
        """Write the buffers, so that only later changes count."""
        if self._names:
            self._writers = [
                one for one in gc.get_objects() if isinstance(one, io.TextIOWrapper | io.BufferedWriter)
            ]
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


def _is_written(descriptor: int) -> bool:
    import fcntl

    mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
    return mode == os.O_WRONLY and stat.S_ISREG(os.fstat(descriptor).st_mode)


def _state(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_ino, status.st_size
