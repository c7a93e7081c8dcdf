"""Looking recorded decisions up, where nobody can be asked: each is used once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tract_jupyter.review.lock import read_lock
from tract_jupyter.review.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tract_jupyter.review.channel import Reviewable
    from tract_jupyter.review.lock import Entry
    from tract_jupyter.review.trust import Trust


class Recorded:
    """The recorded decisions of one lock file, in a process that carries them out.

    Entries of one identity are a queue. Each is used once, so that what is asked twice needs two recorded answers; a
    copy of an entry has its signature, and is no second answer.

    Args:
        path: of the lock file; read when something is looked up for the first time.
        trust: says which entries this user signed.
        used: signatures of entries that were used in this process already; those that are used here are added.
        cell: gives the source of the cell that runs; empty if that is not known.
    """

    def __init__(
        self, path: Path, trust: Trust, used: set[str] | None = None, cell: Callable[[], str] = lambda: ""
    ) -> None:
        self.path = path
        self._cell = cell
        self._project: Project | None = None
        self._trust = trust
        self._used = set() if used is None else used
        self._entries: tuple[Entry, ...] | None = None
        self._lock = threading.Lock()

    def take(self, identity: str) -> Entry | None:
        """The next decision about this very thing, which counts as used; None if there is none left.

        Raises:
            LockFileError: the file cannot be read.
            TrustError: the signing secret cannot be read.
        """
        with self._lock:
            return take(self._all(), identity, self._used, self._of(), self._cell())

    def knows(self, identity: str) -> bool:
        """Whether there is an entry for it, used or not."""
        return any(entry.identity == identity for entry in self._all())

    def why_not(self, pending: Reviewable) -> str:
        """Why there is no decision about it, in a sentence."""
        where = (self._of(), self._cell())
        return refusal(self._all(), pending.identity, pending.title, *where, self.path.name)

    def _all(self) -> tuple[Entry, ...]:
        if self._entries is None:
            self._entries = read_lock(self.path)
        return self._entries

    def _of(self) -> Project:
        if self._project is None:
            self._project = Project.of(self.path, self._trust)
        return self._project


def take(
    entries: tuple[Entry, ...], identity: str, used: set[str], project: Project, cell: str
) -> Entry | None:
    """The next entry about this very thing that counts and is not used, which is used now; None if none is left."""
    for entry in entries:
        if entry.identity == identity and entry.signature not in used and not project.why_not(entry, cell):
            used.add(entry.signature)
            return entry
    return None


def refusal(
    entries: tuple[Entry, ...], identity: str, title: str, project: Project, cell: str, name: str
) -> str:
    """Why no entry settles a question, in a sentence.

    Args:
        entries: of the lock file.
        identity: what is asked.
        title: the question's.
        project: of the lock file.
        cell: the source of the cell that asks; empty if that is not known.
        name: of the lock file.
    """
    same = [entry for entry in entries if entry.identity == identity]
    wrong = next(filter(None, (project.why_not(entry, cell) for entry in same)), "")
    if wrong:
        return f"the entry for {title!r} in {name} {wrong}"
    if same:
        times = "once" if len(same) == 1 else f"{len(same)} times"
        return f"{name} answers {title!r} {times}, and it is asked more often"
    if any(entry.title == lasting_title(title) for entry in entries):
        return (
            f"{name} has an entry for {title!r}, but for other code or other values: these were changed since"
        )
    return f"{name} has no entry for {title!r}"


def lasting_title(title: str) -> str:
    """A title without what depends on the store: whether an operation is new there, or replaces another version."""
    return title.replace("Replace operation ", "Activate operation ", 1)
