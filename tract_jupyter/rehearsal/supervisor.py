"""The supervisor of a copy: ends it at a limit or when the kernel wants it, and reports attempts that seccomp refuses.

It is a fork of the kernel, and runs nothing but this module. The copy cannot reach it.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import json
import os
import signal
import socket
import struct
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.rehearsal import linux
from tract_jupyter.rehearsal.limits import CopyMeter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.rehearsal.limits import RehearsalLimits

_PULSE: Final = 0.05  # seconds between two looks at the meter
_MOST_REPORTS: Final = 1_000
_LONGEST_PATH: Final = 300
_LONGEST_ADDRESS: Final = 128
_NUMBER: Final = struct.Struct("i")
_NAMES: Final = {number: name for name, number in linux.NUMBERS.items()}
_VERBS: Final = {
    "ptrace": "trace a process",
    "process_vm_writev": "write to the memory of a process",
    "mount": "mount a file system",
}


class _Place(NamedTuple):
    """The path in the arguments of a call that changes files.

    Attributes:
        verb: The change.
        path: The number of the argument with the path.
        folder: The number of the argument with the folder of a relative path. None for the working folder.
    """

    verb: str
    path: int
    folder: int | None = None


_PLACES: Final = {
    "open": _Place("write", 0),
    "openat": _Place("write", 1, 0),
    "creat": _Place("write", 0),
    "mkdir": _Place("create", 0),
    "mkdirat": _Place("create", 1, 0),
    "mknod": _Place("create", 0),
    "mknodat": _Place("create", 1, 0),
    "symlink": _Place("create", 1),
    "symlinkat": _Place("create", 2, 1),
    "unlink": _Place("delete", 0),
    "unlinkat": _Place("delete", 1, 0),
    "rmdir": _Place("delete", 0),
    "rename": _Place("rename", 0),
    "renameat": _Place("rename", 1, 0),
    "renameat2": _Place("rename", 1, 0),
    "link": _Place("link", 1),
    "linkat": _Place("link", 3, 2),
}
_NOT_REPORTED: Final = ("/dev/null", "/proc/", "/sys/")


class Supervisor:
    """Watches one copy, and tells the kernel through the socket."""

    def __init__(self, control: socket.socket, limits: RehearsalLimits) -> None:
        self._control = control
        self._meter = CopyMeter(limits)
        self._left = _MOST_REPORTS
        self._listener: int | None = None

    def tell(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send a message to the kernel, with descriptors."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._control, [json.dumps(message).encode()], list(descriptors))

    def watch(self, copy: int, link: socket.socket) -> None:
        """Watch the copy until it ends, the kernel wants it to stop, or it reaches a limit. Report the end.

        The copy, a child, sends the descriptor of its listener through the link, once.
        """
        process = os.pidfd_open(copy)
        limit = self._follow(copy, process, link)
        with contextlib.suppress(ProcessLookupError):
            os.kill(copy, signal.SIGKILL)
        _, status, usage = os.wait4(copy, 0)
        seconds = usage.ru_utime + usage.ru_stime
        exit_code = os.waitstatus_to_exitcode(status)
        self.tell({"kind": "ended", "status": exit_code, "cpu": seconds, "limit": limit})

    def _follow(self, copy: int, process: int, link: socket.socket) -> str:
        """Return the exceeded limit, or an empty text at another end."""
        waiting = {process, self._control.fileno(), link.fileno()}
        checked = time.monotonic()
        while True:
            ready = linux.ready(waiting, _PULSE)
            if ready & {process, self._control.fileno()}:
                return ""
            if link.fileno() in ready:
                waiting.discard(link.fileno())
                self._take_listener(process, link)
                waiting |= set() if self._listener is None else {self._listener}
            elif ready and not self._refuse():
                waiting.discard(self._listener or -1)
            if time.monotonic() - checked >= _PULSE:
                limit = self._meter.exceeded(copy)
                if limit:
                    return limit
                checked = time.monotonic()

    def _take_listener(self, process: int, link: socket.socket) -> None:
        data = link.recv(_NUMBER.size)
        if len(data) == _NUMBER.size:
            (number,) = _NUMBER.unpack(data)
            with contextlib.suppress(OSError):  # attempts fail without a report
                self._listener = linux.take_descriptor(process, number)
            with contextlib.suppress(OSError):
                link.send(b"x")

    def _refuse(self) -> bool:
        """Refuse and report one attempt. Return False if there can be no more."""
        if self._listener is None:
            return False
        try:
            attempt = linux.receive_attempt(self._listener)
        except FileNotFoundError:  # its process was killed
            return True
        except OSError:
            return False
        place = _PLACES.get(_NAMES.get(attempt.number, ""))
        action = self._describe(attempt) if place is None else self._change(attempt, place)
        self._left -= bool(action)
        if action and self._left >= 0:
            self.tell({"kind": "refused", "action": action})
        with contextlib.suppress(OSError):
            (linux.refuse_attempt if place is None else linux.continue_attempt)(self._listener, attempt)
        return True

    def _change(self, attempt: linux.Attempt, place: _Place) -> str:
        """Describe a change of a file, which Landlock refuses. Empty for files that libraries only try to write."""
        text = self._meter.read_memory(attempt.process, attempt.arguments[place.path], _LONGEST_PATH)
        path = os.fsdecode(text.partition(bytes(1))[0])
        number = None if place.folder is None else ctypes.c_int(attempt.arguments[place.folder]).value
        entry = "cwd" if number in {None, linux.AT_FDCWD} else f"fd/{number}"
        with contextlib.suppress(OSError):
            path = os.path.join(os.readlink(f"/proc/{attempt.process}/{entry}"), path)  # noqa: PTH115, PTH118
        path = os.path.normpath(path)
        is_tried = path.startswith(_NOT_REPORTED) or "/." in path
        return "" if is_tried else f"{place.verb} {path}"

    def _describe(self, attempt: linux.Attempt) -> str:
        name = _NAMES.get(attempt.number, "")
        if name in {"connect", "bind"}:
            size = min(attempt.arguments[2], _LONGEST_ADDRESS)
            verb = "connect to" if name == "connect" else "listen on"
            return f"{verb} {_address(self._meter.read_memory(attempt.process, attempt.arguments[1], size))}"
        if name in {"execve", "execveat"}:
            path = self._meter.read_memory(
                attempt.process, attempt.arguments[name == "execveat"], _LONGEST_PATH
            )
            return f"start a process: {os.fsdecode(path.partition(bytes(1))[0])}"
        return _VERBS.get(name, f"use the system call {name}")


def hand_over(listener: int | None, link: socket.socket) -> None:
    """Give the listener of this process, a copy, to its supervisor."""
    if listener is None:
        return
    try:
        link.send(_NUMBER.pack(listener))
        link.recv(1)
    except OSError:  # the supervisor was killed, and this process is next
        os._exit(1)
    os.close(listener)


def _address(data: bytes) -> str:
    if len(data) < struct.calcsize("=HH"):
        return "an unknown address"
    (family,) = struct.unpack_from("=H", data)
    (port,) = struct.unpack_from(">H", data, 2)
    with contextlib.suppress(ValueError):
        if family == socket.AF_INET:
            return f"{ipaddress.IPv4Address(data[4:8])}:{port}"
        if family == socket.AF_INET6:
            return f"{ipaddress.IPv6Address(data[8:24])}:{port}"
    if family == socket.AF_UNIX:
        return os.fsdecode(data[2:].strip(b"\0").partition(b"\0")[0]) or "a Unix socket"
    return f"an address of family {family}"
