"""The kernels of notebooks, as the running Jupyter servers of this user know them.

A kernel knows the path that its notebook had when it started. A server renames its session with the notebook.
"""

from __future__ import annotations

import http.client
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models import why_exposed

if TYPE_CHECKING:
    from collections.abc import Iterator

_SERVERS: Final = "jpserver-*.json"
_HERE: Final = "127.0.0.1"
_LISTENS_HERE: Final = frozenset({"localhost", _HERE, "0.0.0.0"})  # noqa: S104 # compared, not bound
"""The addresses of servers that listen on 127.0.0.1. If one does not, another user can have its port there."""
_SECONDS: Final = 2.0
_MOST_BYTES: Final = 5_000_000


def kernel_of(notebook: Path, runtime: Path) -> str:
    """Return the id of the kernel that runs a notebook; empty if no server of this machine knows it.

    Args:
        notebook: its absolute path, without links.
        runtime: the runtime folder of Jupyter.
    """
    for server in jupyter_servers(runtime):
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, http.client.HTTPException):
            for path, kernel in _sessions(server):
                if path == notebook:
                    return kernel
    return ""


def jupyter_servers(runtime: Path) -> Iterator[dict[str, Any]]:
    """Yield what each running Jupyter server of this user wrote about itself: `url`, `root_dir`, `token` and more.

    Args:
        runtime: the runtime folder of Jupyter.
    """
    for file in runtime.glob(_SERVERS):
        with suppress(OSError, ValueError, TypeError, KeyError):
            if file.is_symlink() or why_exposed(file):
                continue
            server = json.loads(file.read_text(encoding="utf-8"))
            os.kill(int(server["pid"]), 0)  # the port of an ended server may belong to another program
            yield server


def _sessions(server: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield the notebook and the kernel of each session of a server."""
    root = Path(server["root_dir"])
    is_asked = server["hostname"] in _LISTENS_HERE and not server["secure"]
    for session in _asked(server) if is_asked else []:
        yield (
            (root / session["path"].removeprefix("RTC:").lstrip("/")).resolve(),
            str(session["kernel"]["id"]),
        )


def _asked(server: dict[str, Any]) -> Any:
    connection = http.client.HTTPConnection(_HERE, int(server["port"]), timeout=_SECONDS)
    try:
        headers = {"Authorization": f"token {server['token']}"}
        connection.request("GET", f"{server['base_url']}api/sessions", headers=headers)
        reply = connection.getresponse()
        return json.loads(reply.read(_MOST_BYTES)) if reply.status == http.client.OK else []
    finally:
        connection.close()
