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
import sys
from collections import deque
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.rehearsal.baseline import names_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_MOST_OBJECTS: Final = 20_000  # of a search for open files
_LARGEST: Final = 1_000  # members of a collection that is searched
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

    def start(self, code: str, namespace: Mapping[str, Any]) -> None:
        """Write the buffers, so that only later changes count.

        Args:
            code: The code that will run.
            namespace: Its variables. The files that it names are searched in them, and in the handlers of `logging`.
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
    """Give an open file another number."""
    os.dup2(opened, descriptor, inheritable=False)
    os.close(opened)


def _is_written(descriptor: int) -> bool:
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY


def _state(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_ino, status.st_size
