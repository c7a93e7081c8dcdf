"""The hidden files of a home folder that is the workspace: they hold keys, tokens and histories.

The code may not read entries whose names begin with a dot, except what the interpreter needs.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator


def homes() -> set[Path]:
    """Return the resolved home folders of the user: the one of the environment, and the one of the account."""
    found = [Path.home()]
    with contextlib.suppress(ImportError, KeyError):  # not on Windows; a user without an account
        import pwd

        found.append(Path(pwd.getpwuid(os.getuid()).pw_dir))
    return {path.resolve() for path in found}


def is_home(workspace: Path) -> bool:
    """Return True if a resolved folder is a home folder of the user."""
    return workspace in homes()


def is_hidden_in_home(path: str, workspace: Path) -> bool:
    """Return True for a path below the workspace that is hidden, or in a hidden folder, in the home folder."""
    return path.startswith(".") and is_home(workspace)


def dot_entries(workspace: Path) -> tuple[str, ...]:
    """Return the resolved paths of the hidden entries of a home folder. Empty for another folder."""
    if not is_home(workspace):
        return ()
    names = [name for name in os.listdir(workspace) if name.startswith(".")]  # noqa: PTH208 # names only
    found = {os.path.realpath(workspace / name) for name in names}
    inside = {path for path in found if path != str(workspace) and is_below(path, [str(workspace)])}
    return tuple(sorted(path for path in inside if not is_below(path, inside - {path})))


def visible_entries(folder: str, hidden: Collection[str]) -> Iterator[str]:
    """Yield the paths that together are a folder without its hidden paths. Links are not in the result."""
    if not any(is_below(path, [folder]) for path in hidden):
        yield folder
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.path not in hidden and not entry.is_symlink():
                yield from visible_entries(entry.path, hidden)


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Return True if a path is one of some folders, or below one."""
    return f"{path}/".startswith(tuple(f"{folder.rstrip('/')}/" for folder in folders))
