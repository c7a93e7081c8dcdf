"""The name of this process and of the running notebook cell.

Other processes on a store use the name to identify the asking process and the process that carries out a decision.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from contextlib import contextmanager
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING

from tract_jupyter.models import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FROM_STORE = "the store"
"""The origin of a question about stored data whose writing process is unknown."""

_LONGEST = 100  # characters of a host's name, and of a file's
_cells: list[Callable[[], str]] = []


def this_process() -> str:
    """Return this process's name: `host:pid:random:name`. The last part is the file of the notebook or program.

    A fork gets a new name.
    """
    return _of(os.getpid())


def this_cell() -> str:
    """Return the id of the running notebook cell.

    Return `In [3]` if the front end gives no id, and an empty text outside a notebook.
    """
    return one_line(_cells[-1](), _LONGEST) if _cells else ""


@contextmanager
def naming_cells(cell: Callable[[], str]) -> Iterator[None]:
    """Use a function that returns the running cell, for the duration of a block."""
    _cells.append(cell)
    try:
        yield
    finally:
        _cells.remove(cell)


def process_text(process: str | None) -> str:
    """Describe a process for users: `june_report.ipynb`, or `process 4711 on host` without a known file."""
    host, pid, _, name = _parts(process)
    return one_line(name or (f"process {pid} on {host}" if pid else "a process"), 2 * _LONGEST)


def has_ended(process: str | None) -> bool:
    """Return True if the process has ended. Always False for processes on other hosts."""
    return _is_running(process) is False


def is_running(process: str | None) -> bool:
    """Return True if the process is running. Always False for processes on other hosts."""
    return _is_running(process) is True


def runs_elsewhere(process: str | None) -> bool:
    """Return True if it is another process, which is running on this host."""
    return process != this_process() and is_running(process)


def may_run_elsewhere(process: str | None) -> bool:
    """Return True if another process is running, or if this host cannot know because it is on another host."""
    return runs_elsewhere(process) or is_on_other_host(process)


def is_on_other_host(process: str | None) -> bool:
    """Return True if the process is named, and its host is not this one."""
    host, *_ = _parts(process)
    return bool(process) and process != this_process() and host != _host()


def _is_running(process: str | None) -> bool | None:
    host, pid, *_ = _parts(process)
    if host != _host() or not pid.isdecimal() or os.name != "posix":
        return None
    if pid == str(os.getpid()):  # a restarted container may reuse the pid
        return process == this_process()
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    except (OverflowError, ValueError):  # the store may hold any number
        return None
    return True


def _parts(process: str | None) -> list[str]:
    """Split into host, number, random part and name; the store may hold any text."""
    return [*(process or "").split(":", 3), "", "", "", ""][:4]


def _file_name() -> str:
    """Return the notebook's file name, as this kernel's server reports it, or else the program's file name."""
    program = PurePath(sys.argv[0] if sys.argv else "")
    if "ipykernel_launcher" in program.stem or "ipykernel" in program.parts:
        # the server's name for the notebook's session: a path, or a random part if it is not a notebook
        program = PurePath(os.environ.get("JPY_SESSION_NAME", ""))
    name = program.parent.name if program.name == "__main__.py" else program.name
    # a file name may contain characters that cannot be stored
    return "" if name == "-c" else one_line(name, _LONGEST).replace(":", "-")


def _host() -> str:
    return socket.gethostname()[:_LONGEST].replace(":", "-")


@lru_cache(maxsize=1)
def _of(pid: int) -> str:
    return f"{_host()}:{pid}:{secrets.token_hex(8)}:{_file_name()}"
