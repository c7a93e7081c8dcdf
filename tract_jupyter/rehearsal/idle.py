"""Waits for a moment in which no other thread of this process computes: only then can the process fork.

OpenBLAS ends its threads before a fork. If another thread computes with them, the fork never returns, and holds the GIL
of the kernel forever.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
from functools import cache
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import RehearsalError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_WAIT: Final = 1.0  # seconds
_PAUSE: Final = 0.004  # seconds between two looks
_NO_SWITCH: Final = 60.0  # seconds
_COMPUTING: Final = (b"R", b"D")  # running, or waiting for a page


class BusyThreadsError(RehearsalError):
    """Another thread computes all the time, so the process cannot fork."""


@contextlib.contextmanager
def idle_threads() -> Iterator[None]:
    """Wait until no other thread computes, and keep the GIL from then on, so that none starts to.

    Raises:
        BusyThreadsError: another thread computes all the time.
    """
    if "numpy" not in sys.modules:
        yield
        return
    interval = sys.getswitchinterval()
    until = time.monotonic() + _LONGEST_WAIT
    try:
        sys.setswitchinterval(_NO_SWITCH)
        while _is_one_computing():
            if time.monotonic() > until:
                raise BusyThreadsError(
                    "Another thread of the kernel computes, so the kernel cannot be copied."
                )
            time.sleep(_PAUSE)
        yield
    finally:
        sys.setswitchinterval(interval)


def _is_one_computing() -> bool:
    """Return True if another thread of Python computes. A thread that uses OpenBLAS never sleeps until the end."""
    own = threading.get_native_id()
    threads = [thread.native_id for thread in threading.enumerate() if thread.native_id != own]
    libc, line = _libc_with_gil(), ctypes.create_string_buffer(64)
    for number in threads:
        file = libc.open(f"/proc/self/task/{number}/stat".encode(), os.O_RDONLY | os.O_CLOEXEC)
        size = libc.read(file, line, len(line)) if file >= 0 else 0
        if file >= 0:
            libc.close(file)
        if line.raw[:size].rpartition(b")")[2][1:2] in _COMPUTING:
            return True
    return False


@cache
def _libc_with_gil() -> ctypes.PyDLL:
    """Return the C library for calls that keep the GIL."""
    return ctypes.PyDLL(None)
