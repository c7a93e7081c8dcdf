"""Reports refused attempts with their target and line: connections, processes, signals, files outside.

Python announces such attempts to audit hooks. The hook refuses them with a clear message before the system call. The
guarantee is the containment: code that avoids the hook meets Landlock and seccomp.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.rehearsal.contain import is_below
from tract_jupyter.rehearsal.effects import FOREIGN

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from tract_jupyter.rehearsal.contain import Containment
    from tract_jupyter.rehearsal.inside import ReportChannel, Runner

_MOST: Final = 1_000  # reports of one rehearsal
_LONGEST: Final = 300
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_LOUD: Final = ("connect to ", "send ", "start a process: ")  # reported also within an import
_PROBES: Final = (
    "cc", "clang", "dpkg", "fc-list", "gcc", "git", "ld", "ldconfig", "lsb_release", "lscpu", "nvcc", "nvidia-smi",
    "objdump", "rocminfo", "uname",
)  # fmt: skip
"""Programs that libraries start when they are imported, to look for a compiler, a library or a device."""
_UNMAPPED: Final = 65534  # the owner and group that a user namespace shows for all others
_UNIX: Final = 1
_INTERNET: Final = (2, 10)

_CHANGES: Final = {  # event: the verb, and the positions of the paths that change
    "os.chmod": ("change the mode of", (0,)),
    "os.chown": ("change the owner of", (0,)),
    "os.utime": ("change the time of", (0,)),
    "os.setxattr": ("change attributes of", (0,)),
    "os.removexattr": ("change attributes of", (0,)),
    "os.truncate": ("truncate", (0,)),
    "os.remove": ("delete", (0,)),
    "os.rmdir": ("delete", (0,)),
    "os.mkdir": ("create", (0,)),
    "os.rename": ("rename", (0, 1)),
    "os.link": ("link", (0, 1)),
    "os.symlink": ("create", (1,)),
}


def report_refusals(channel: ReportChannel, runner: Runner, containment: Containment) -> None:
    """Report and refuse attempts from now on, in this process and its children."""
    hook = _Hook(channel, runner.line_now, containment)
    runner.refuse = hook.refuse
    sys.addaudithook(hook)


class _Hook:
    def __init__(
        self, channel: ReportChannel, line_now: Callable[[], int | None], containment: Containment
    ) -> None:
        self._channel = channel
        self._line_now = line_now
        self._writable = (*containment.writable, "/dev/null")
        self._readable = (
            *containment.readable,
            containment.workspace,
            *containment.writable,
            "/proc",
            "/dev",
            "/sys",
        )
        self._workspace = os.path.realpath(containment.workspace)
        self._hidden = containment.hidden
        self._needed = [path for path in containment.readable if is_below(path, containment.hidden)]
        self._left = _MOST
        self._handlers: dict[str, Callable[[tuple[Any, ...]], str]] = {
            "open": self._opened,
            "socket.connect": lambda args: f"connect to {_address(args[1])}",
            "socket.sendto": lambda args: f"send to {_address(args[1])}",
            "socket.sendmsg": lambda args: f"send to {_address(args[1])}" if args[1] is not None else "",
            "socket.bind": lambda args: f"listen on {_address(args[1])}",
            "socket.getaddrinfo": lambda args: _lookup(args[0], args[1]),
            "socket.gethostbyname": lambda args: _lookup(args[0], None),
            "socket.gethostbyaddr": lambda args: _lookup(args[0], None),
            "socket.__new__": _new_socket,
            "subprocess.Popen": lambda args: f"start a process: {_command(args[1] or args[0])}",
            "os.system": lambda args: f"start a process: {_command(args[0])}",
            "os.exec": lambda args: f"start a process: {_command(args[1] or args[0])}",
            "os.posix_spawn": lambda args: f"start a process: {_command(args[1] or args[0])}",
            "os.kill": lambda args: "" if args[0] == os.getpid() else self._signal(args),
            "os.killpg": lambda args: f"send signal {args[1]} to the process group {args[0]}",
            **{event: self._changed(*rule) for event, rule in _CHANGES.items()},
        }

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        handler = self._handlers.get(event)
        if handler is None:
            return
        action = handler(arguments)
        if action:
            self.refuse(action)

    def refuse(self, action: str) -> None:
        """Report an attempt, and raise an error."""
        action = _printable(action)
        if _is_loud(action) or not _is_importing():
            self._left -= 1
            if self._left >= 0:
                self._channel.send({"kind": "refused", "action": action, "line": self._line_now()})
        raise PermissionError(f"A rehearsal cannot {action}")

    def _signal(self, arguments: tuple[Any, ...]) -> str:
        return "" if _is_own_child(arguments[0]) else f"send signal {arguments[1]} to process {arguments[0]}"

    def _opened(self, arguments: tuple[Any, ...]) -> str:
        path, _, flags = arguments
        if isinstance(path, int) or not isinstance(flags, int):
            return ""
        is_write = bool(flags & _WRITING)
        place = self._outside(path, is_write=is_write)
        if not place or not (is_write or os.path.lexists(place) or is_below(place, self._hidden)):
            return ""
        return f"write {place}" if is_write else f"read {place}"

    def _changed(self, verb: str, positions: tuple[int, ...]) -> Callable[[tuple[Any, ...]], str]:
        def handle(arguments: tuple[Any, ...]) -> str:
            for position in positions:
                place = self._outside(arguments[position], is_write=True, is_kept=verb != "delete")
                if place:
                    return f"{verb} {place}"
            return ""

        return handle

    def _outside(self, path: Any, *, is_write: bool, is_kept: bool = True) -> str:
        """Return the absolute path if the copy cannot use it, else an empty text."""
        try:
            text = os.fsdecode(path)
        except TypeError:  # a descriptor
            return ""
        place = os.path.realpath(text)
        if text.startswith(("/proc/self/fd/", "/dev/fd/")):
            return ""
        if is_below(place, self._hidden):
            return "" if not is_write and is_below(place, self._needed) else place
        if not is_below(place, self._writable if is_write else self._readable):
            return place
        return self._foreign(place if is_kept else os.path.dirname(place)) if is_write else ""  # noqa: PTH120

    def _foreign(self, place: str) -> str:
        """Return a text if the overlay cannot copy a path, or a folder above it, with its owner and group."""
        while is_below(place, [self._workspace]) and place != self._workspace:
            with contextlib.suppress(OSError):
                status = os.lstat(place)
                if _UNMAPPED in {status.st_uid, status.st_gid}:
                    return f"{place}{FOREIGN}"
            place = os.path.dirname(place)  # noqa: PTH120
        return ""


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else "�" for one in text)[:_LONGEST]


def _is_importing() -> bool:
    """Return True within an import: modules look for files that they do not need."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 # the only way to the stack
    while frame is not None:
        if frame.f_globals.get("__name__") in {"importlib._bootstrap", "_frozen_importlib"}:
            return True
        frame = frame.f_back
    return False


def _is_loud(action: str) -> bool:
    """Return True for an attempt to reach the network or another process, also if an import makes it."""
    program = action.removeprefix("start a process: ").partition(" ")[0].rpartition("/")[2]
    return action.startswith(_LOUD) and program not in _PROBES


def _is_own_child(process: Any) -> bool:
    """Return True for a process below this one. Signals to others cannot leave the copy anyway."""
    try:
        with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children", encoding="ascii") as children:  # noqa: PTH123
            return str(process) in children.read().split()
    except OSError:
        return False


def _address(address: Any) -> str:
    match address:
        case (host, int(port), *_):
            return f"{_decoded(host)}:{port}"
        case _:
            return _decoded(address)


def _lookup(host: Any, port: Any) -> str:
    if host is None:
        return ""
    return f"connect to {_decoded(host)}" + (f":{_decoded(port)}" if port else "")


def _decoded(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _new_socket(arguments: tuple[Any, ...]) -> str:
    family = arguments[1]
    if family in _INTERNET or family == -1:
        return ""
    caller: FrameType | None = sys._getframe(3) if family == _UNIX else None  # noqa: SLF001 # hook, lambda, socket.__init__
    while caller is not None:
        if caller.f_code.co_name == "socketpair":
            return ""
        caller = caller.f_back
    with contextlib.suppress(ValueError):
        family = socket.AddressFamily(family).name
    return f"open a socket of family {family}"


def _command(command: Any) -> str:
    """Return the first words of a command."""
    words = command if isinstance(command, list | tuple) else [command]
    return " ".join(_decoded(os.fspath(word) if isinstance(word, os.PathLike) else word) for word in words)
