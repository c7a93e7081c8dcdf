"""The files that tell where a kernel of this user serves its tools. Only this user can read them."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import McpStartError
from tract_jupyter.models import open_private, why_exposed
from tract_jupyter.review import has_ended, this_process

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX: Final = "tract-kernel-"
_MOST_BYTES: Final = 20_000


class ServedKernel(NamedTuple):
    """A kernel that serves its tools.

    `since` is the start of the server, in seconds since the epoch. `notebook` is an absolute path; it and `kernel`,
    Jupyter's id, are empty if they are unknown.
    """

    url: str
    token: str
    notebook: str
    process: str
    since: float
    kernel: str = ""

    @classmethod
    def here(cls, url: str, token: str, notebook: Path | None, kernel: str = "") -> ServedKernel:
        """Return the entry of this process."""
        path = "" if notebook is None else str(notebook.resolve())
        return cls(url, token, path, this_process(), time.time(), kernel)

    def publish(self) -> Path:
        """Write the file of this process, with mode 0600, and return its path."""
        folder = _folder()
        path = folder / f"{_PREFIX}{os.getpid()}.json"
        new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(new, "x", encoding="utf-8", opener=open_private) as file:  # it takes no opener
                json.dump(self._asdict(), file)
            new.replace(path)
        except OSError as error:
            with suppress(OSError):
                new.unlink(missing_ok=True)
            raise McpStartError(
                f"{folder} cannot be written: {error.strerror}. Check its permissions"
            ) from error
        return path


def _folder() -> Path:
    from jupyter_core.paths import jupyter_runtime_dir

    return Path(jupyter_runtime_dir())


def served_kernels() -> list[ServedKernel]:
    """Return the running kernels that serve their tools, newest first. Remove the files of ended ones."""
    return sorted(_entries(), key=lambda one: one.since, reverse=True)


def _entries() -> Iterator[ServedKernel]:
    for path in _folder().glob(f"{_PREFIX}*.json"):
        entry = _read(path)
        if entry is None:
            continue
        if has_ended(entry.process):
            with suppress(OSError):
                path.unlink()
            continue
        yield entry


def _read(path: Path) -> ServedKernel | None:
    """Return the entry of a file; None if it is not readable, or other users can change it."""
    try:
        if path.is_symlink() or path.stat().st_size > _MOST_BYTES or why_exposed(path):
            return None
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        entry = ServedKernel(**data)
    except (OSError, ValueError, TypeError):
        return None
    texts = (entry.url, entry.token, entry.notebook, entry.process, entry.kernel)
    is_valid = all(isinstance(text, str) for text in texts) and isinstance(entry.since, int | float)
    return entry if is_valid and entry.url.startswith("http://127.0.0.1:") else None


def find_kernel(notebook: str, former: str = "") -> ServedKernel:
    """Return the running kernel of a notebook. A notebook with a new path is looked up in the sessions of Jupyter.

    Args:
        notebook: its path. Empty for the only kernel that serves its tools.
        former: Jupyter's id of the kernel that it had earlier; empty if it is unknown. A restart keeps the id, also if
            the notebook has a new path then.

    Raises:
        McpStartError: there is none, or there are several.
    """
    kernels = served_kernels()
    if notebook:
        path = Path(notebook).resolve()
        found = [one for one in kernels if one.notebook == str(path)]
        if not found and any(one.kernel for one in kernels):
            kernel = kernel_of(path, _folder()) or former
            found = [one for one in kernels if kernel and one.kernel == kernel]
        if not found:
            raise McpStartError(
                f"no kernel of {notebook} serves its tools. Run %tract serve in this notebook{_others(kernels)}"
            )
        return found[0]
    if not kernels:
        raise McpStartError("no kernel serves its tools. Run %tract serve in a notebook")
    if len({one.notebook or one.process for one in kernels}) > 1:
        raise McpStartError(f"several kernels serve their tools. Name the notebook{_others(kernels)}")
    return kernels[0]


def _others(kernels: list[ServedKernel]) -> str:
    names = ", ".join(sorted(one.notebook or "a kernel without a known notebook" for one in kernels))
    return f". Kernels that serve: {names}" if names else ""


_SERVERS: Final = "jpserver-*.json"
_HERE: Final = "127.0.0.1"
_LISTENS_HERE: Final = frozenset({"localhost", _HERE, "0.0.0.0"})  # noqa: S104 # compared, not bound
"""The addresses of servers that listen on 127.0.0.1. If one does not, another user can have its port there."""
_SECONDS: Final = 2.0
_LONGEST_REPLY: Final = 5_000_000


def kernel_of(notebook: Path, runtime: Path) -> str:
    """Return the id of the kernel that runs a notebook; empty if no server of this machine knows it."""
    for server in jupyter_servers(runtime):
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, http.client.HTTPException):
            for path, kernel in _sessions(server):
                if path == notebook:
                    return kernel
    return ""


def jupyter_servers(runtime: Path) -> Iterator[dict[str, Any]]:
    """Yield what each running Jupyter server of this user wrote about itself: `url`, `root_dir`, `token` and more."""
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
        return json.loads(reply.read(_LONGEST_REPLY)) if reply.status == http.client.OK else []
    finally:
        connection.close()
