"""Files and folders that only their owner can read, for any umask."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HAS_MODES: Final = os.name == "posix"  # Windows protects the user's folders by access lists
_AT_ONCE: Final = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY"))
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def open_private(path: str, flags: int) -> int:
    """Open a regular file, with mode 0600 if this creates it; an `opener` for `open`.

    A symbolic link is an error: in a folder from another person, it could lead to a file of the user.
    """
    return _regular(os.open(path, flags | _AT_ONCE | getattr(os, "O_NOFOLLOW", 0), 0o600))


def open_regular(path: str, flags: int) -> int:
    """Open a regular file; an `opener` for `open`.

    Reading a pipe or a device, also behind a link, could wait forever or fill the memory.
    """
    return _regular(os.open(path, flags | _AT_ONCE))


def _regular(descriptor: int) -> int:
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file")


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents with mode 0700. Existing folders keep their mode."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def why_exposed(file: Path) -> str:
    """Return why other users can read or replace a file, with the remedy; empty if they cannot.

    The file belongs to this user or root, only its owner has permissions, and no folder above it is writable for all
    users. Unlike ssh, this accepts folders of other owners or with write permission for a group: containers have them.

    Raises:
        OSError: the file or a folder cannot be examined.
    """
    if not _HAS_MODES:
        return ""
    state = file.stat()
    if state.st_uid not in {0, os.geteuid()}:
        return f"it belongs to another user (id {state.st_uid}). Replace it with your own file"
    if state.st_mode & _OTHERS:
        return f"other users can access it (mode {stat.S_IMODE(state.st_mode):04o}). Run: chmod 600 '{file}'"
    for folder in _folders_above(file):
        mode = stat.S_IMODE(folder.stat().st_mode)
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:  # sticky, as /tmp: others cannot replace the file
            return (
                f"other users can write to its folder '{folder}' (mode {mode:04o}). Run: chmod o-w '{folder}'"
            )
    return ""


def _folders_above(file: Path) -> Iterator[Path]:
    """Yield the folders above a file. If a link leads elsewhere, include the folders of the given path."""
    yield from dict.fromkeys([*file.absolute().parents, *file.resolve().parents])
