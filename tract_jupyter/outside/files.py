"""Files of a turn with an outside agent: the shown diff, the expected content, and the comparison with it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from tract_jupyter.models import one_line, sha256, unified_diff

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.outside.calls import AnnouncedChange

_LARGEST: Final = 10_000_000
_NAME: Final = 120
_MOST_LOOKED_AT: Final = 5_000


class NotebookFile(Protocol):
    """The file of the open notebook since the start of a turn."""

    @property
    def path(self) -> Path:
        """The file."""
        ...

    @property
    def is_saved_only(self) -> bool:
        """True if the file is a notebook whose cells are as before, or as a save by the page leaves them."""
        ...


class ExpectedFile(NamedTuple):
    """The content that a file may have after an approved change.

    Attributes:
        path: the file.
        before: its content at the time of the request; None if it was missing or not a text.
        contents: the possible contents. Empty if the replaced text was not in the file.
        changed_early: True if the file changed after the request, before the decision.
        is_cut: True if the content after a change at all places is too large.
    """

    path: Path
    before: str | None
    contents: tuple[str, ...]
    changed_early: bool = False
    is_cut: bool = False

    @property
    def limit(self) -> str:
        """The reason why a diff does not show exactly the effect on the file; empty if it does."""
        if not self.contents:
            return "The text that it replaces is not there"
        if self.was_there:
            return "The file has this content already"
        if self.is_cut:
            return "The text that it replaces occurs many times, and the diff shows only the first change"
        if len(self.contents) > 1:
            return "The text that it replaces occurs several times, and it may replace only the first"
        is_hidden = self.before is None and os.path.lexists(self.path)
        return (
            "The present content is not shown, because it is not a text of up to 10 MB" if is_hidden else ""
        )

    @property
    def was_there(self) -> bool:
        """True if the file had its content after the change already at the request."""
        return self.before in self.contents and not self.changed_early

    @property
    def is_unchanged(self) -> bool:
        """True if the file has its content of the time of the request."""
        return read_text(self.path) == self.before

    @property
    def has_difference(self) -> bool:
        """True if the file has another content now. An agent describes a removal as a change to an empty text."""
        if "" in self.contents and not os.path.lexists(self.path):
            return False
        return read_text(self.path) not in self.contents


def absolute(path: str, folder: Path) -> Path:
    """Return the path that an agent means. Links are not followed."""
    return Path(os.path.abspath(folder / path))  # noqa: PTH100 # a link is not followed


def real(path: str, folder: Path) -> Path:
    """Return the file that an agent changes by a path. Links are followed as far as possible."""
    try:
        return absolute(path, folder).resolve()
    except (OSError, ValueError, RuntimeError):  # such as a text that is no path
        return absolute(path, folder)


def is_notebook(path: str, folder: Path, open_file: Path | None) -> bool:
    """Return True if a path, as the agent writes it, is one of a notebook, also by a link.

    A file with several names is compared with the open notebook, and with the notebooks below the working folder.
    """
    target = real(path, folder)
    if path.strip().lower().endswith(".ipynb") or target.suffix.lower() == ".ipynb":
        return True
    with suppress(OSError, ValueError):
        status = target.stat()
        if status.st_nlink > 1:
            return any(os.path.samestat(status, one) for one in _notebooks(folder, open_file))
    return False


def _notebooks(folder: Path, open_file: Path | None) -> Iterator[os.stat_result]:
    """Yield the open notebook and the notebooks below a folder, up to a number of files."""
    with suppress(OSError):
        if open_file is not None:
            yield open_file.stat()
    looked_at = 0
    for place, _, names in os.walk(folder):
        looked_at += len(names)
        for name in names:
            if name.lower().endswith(".ipynb"):
                with suppress(OSError):
                    yield Path(place, name).stat()
        if looked_at > _MOST_LOOKED_AT:
            return


def shown(path: Path, folder: Path) -> str:
    """Return a path for the user: below the folder, or complete."""
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)


def read_text(path: Path) -> str | None:
    """Return the text of a regular file; None if there is none."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return None
        return path.read_bytes().decode()
    except (OSError, ValueError):
        return None


def mark_of(path: Path) -> str:
    """Return a mark of a file and its text, which changes with them; empty if nothing is there."""
    text = read_text(path)
    if text is not None:
        return sha256(text.encode())
    return "not a text" if os.path.lexists(path) else ""


def expected(change: AnnouncedChange, folder: Path) -> ExpectedFile:
    """Return the content that a file has after a change. The replaced text may be a part of the file."""
    path = absolute(change.path, folder)
    now = read_text(path)
    if change.before is None:
        return ExpectedFile(path, now, (change.after,))
    if now is None or change.before == now:
        return ExpectedFile(path, now, (change.after,))
    if not change.before or change.before not in now:
        return ExpectedFile(path, now, ())
    once = now.replace(change.before, change.after, 1)
    if now.count(change.before) * len(change.after) > _LARGEST:
        return ExpectedFile(path, now, (once,), is_cut=True)
    return ExpectedFile(path, now, tuple(dict.fromkeys([once, now.replace(change.before, change.after)])))


def diff_of(change: AnnouncedChange, folder: Path) -> str:
    """Return the change as a unified diff of the whole file, or of the announced texts if these are not in the file.

    If the agent may replace a text at one place or at all places, the diff shows all.
    """
    target = expected(change, folder)
    name = one_line(shown(target.path, folder), _NAME)
    before, after = change.before or "", change.after
    if target.contents:
        before, after = target.before or "", target.contents[-1]
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    lines = unified_diff(old, new, f"{name} (now)", f"{name} (then)", end="\n")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
