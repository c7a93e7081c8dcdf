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


@lru_cache(maxsize=1)
def _of(pid: int) -> str:
    return f"{socket.gethostname()[:100].replace(':', '-')}:{pid}:{secrets.token_hex(8)}"
