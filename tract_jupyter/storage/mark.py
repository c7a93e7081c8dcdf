"""The mark of an SQLite file: the store's counts after its last write.

The newest writes of a store are in its WAL file. If a process dies and the WAL file is deleted, SQLite opens the rest
and reports nothing. So each write stores its counts in `NAME-mark`, and the next opening compares them. The last
process that closes the store removes the mark: then the file is complete without a WAL, and can be copied and restored.

The counts are not signed. A wrong mark only causes a warning.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.models import open_private

if TYPE_CHECKING:
    from pathlib import Path

_COUNTS: Final = (
    "SELECT (SELECT value FROM tract_meta WHERE key = 'store_id'), "
    "(SELECT max(id) FROM commits), (SELECT max(id) FROM events)"
)
_RECORD: Final = re.compile(rb"([0-9a-f]{32}) (\d{20}) (\d{20})\n")
_REMEDY: Final = (
    "Restore a backup, or the '-wal' file if you have it. If this is the right file, continue: this warning comes "
    "once"
)


_FLAGS: Final = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)


def _seek_and_write(file: int, record: bytes, offset: int) -> None:
    os.lseek(file, offset, os.SEEK_SET)
    os.write(file, record)


_overwrite: Final = getattr(os, "pwrite", _seek_and_write)  # Windows has no `pwrite`


class StoreLossWarning(UserWarning):
    """A store has lost data since its last write."""


class Counts(NamedTuple):
    """The ids of a store and of its newest commit and event. Events also record the removal of commits."""

    store_id: str
    commits: int
    events: int

    @classmethod
    def of(cls, driver: Any) -> Counts | None:
        """Read the counts within a transaction; None if the store is too damaged for that."""
        try:
            store_id, commits, events = driver.execute(_COUNTS).fetchone()
        except sqlite3.Error:
            return None
        return cls(str(store_id), commits or 0, events or 0)

    def missing_in(self, now: Counts) -> int:
        """Return the number of commits that are missing in `now`; 0 if gc removed them."""
        is_later = now.store_id != self.store_id or now.events > self.events
        return 0 if is_later else max(0, self.commits - now.commits)


_BEING_MADE: Final = Counts("0" * 32, 0, 0)


class Mark:
    """The mark of one store. Requires write access to the folder.

    Args:
        store: the SQLite file, before its creation. If it is missing, the mark records its creation, because another
            process may see an empty file during that time.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._path = store.with_name(f"{store.name}-mark")
        self._file: int | None = None
        self._lock = threading.Lock()
        self._before: Counts | None = None
        self._is_empty = False
        self._is_ours = False
        """True after opening the store or writing the mark."""
        with suppress(OSError, ValueError):  # SQLite reports the error later
            if store.exists():
                self._before = self._read()
                self._is_empty = store.stat().st_size == 0
            else:
                self.write(_BEING_MADE)

    def loss(self, now: Counts, *, is_new: bool) -> str:
        """Describe the losses of the opened store. Empty if no loss is known.

        Args:
            now: the counts of the store.
            is_new: True if its tables were just created.
        """
        before, self._is_ours = self._before, True
        if is_new and before == _BEING_MADE:
            return ""
        if is_new and before is not None:
            lost = f"a store with up to {before.commits:,} commits" if before.commits else "a store"
            return (
                f"{self._store} held {lost}, and its content is gone; a new store was made in it. {_REMEDY}."
            )
        if is_new and self._is_empty:
            return (
                f"{self._store} was there and had 0 bytes; a new store was made in it. If it held a store before, its "
                f"content is gone. {_REMEDY}."
            )
        missing = 0 if before is None or is_new else before.missing_in(now)
        if missing:
            return f"{self._store} lacks up to {missing:,} of the newest commits. {_REMEDY}."
        return ""

    def write(self, counts: Counts) -> None:
        """Store the counts after a write."""
        record = f"{counts.store_id} {counts.commits:020} {counts.events:020}\n".encode()
        with self._lock, suppress(OSError):
            if self._file is None:
                self._file = open_private(str(self._path), _FLAGS)
                self._is_ours = True
            _overwrite(self._file, record, 0)

    def close(self) -> None:
        """Close the mark, and remove it if no process uses the store any more."""
        self._release()
        if self._is_ours and not self._store.with_name(f"{self._store.name}-wal").exists():
            with suppress(OSError):
                self._path.unlink()

    def __del__(self) -> None:
        self._release()

    def _release(self) -> None:
        with self._lock, suppress(OSError):
            file, self._file = self._file, None
            if file is not None:
                os.close(file)

    def _read(self) -> Counts | None:
        with suppress(OSError):
            match = _RECORD.fullmatch(self._path.read_bytes())
            if match is not None:
                return Counts(match[1].decode(), int(match[2]), int(match[3]))
        return None
