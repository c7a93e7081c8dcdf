"""Which process this is, so that the others on a store can tell who asked, and who carries a decision out."""

from __future__ import annotations

import os
import secrets
import socket
from functools import lru_cache


def this_process() -> str:
    """`host:pid:random`; another one after a fork."""
    return _of(os.getpid())


def process_text(process: str | None) -> str:
    """The same for people: `process 4711 on host`."""
    host, _, rest = (process or "").rpartition(":")[0].rpartition(":")
    return f"process {rest} on {host}" if rest else "a process"


def has_ended(process: str | None) -> bool:
    """Whether a process of this host has ended; of another host nobody here knows."""
    return _is_running(process) is False


def is_running(process: str | None) -> bool:
    """Whether a process of this host runs; of another host nobody here knows."""
    return _is_running(process) is True


def _is_running(process: str | None) -> bool | None:
    host, _, pid = (process or "").rpartition(":")[0].rpartition(":")
    if host != _host() or not pid.isdecimal() or os.name != "posix":
        return None
    if pid == str(os.getpid()):  # as in a container that was started again
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


def _host() -> str:
    return socket.gethostname()[:100].replace(":", "-")


@lru_cache(maxsize=1)
def _of(pid: int) -> str:
    return f"{_host()}:{pid}:{secrets.token_hex(8)}"
