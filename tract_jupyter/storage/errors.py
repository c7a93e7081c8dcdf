"""Database errors in our words: what happened, why, what to do."""

from __future__ import annotations

import sqlite3

from tract_jupyter.exceptions import StoreCorruptError, StoreError, StoreLockedError, StoreReadOnlyError

# SQLite's primary result codes, https://www.sqlite.org/rescode.html
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_READ_ONLY = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_PRIMARY = 0xFF  # an extended code keeps the primary one in its low byte


def translate(cause: BaseException | None, location: str) -> StoreError:
    """Return our error for the driver's."""
    code = getattr(cause, "sqlite_errorcode", None)
    primary = code & _PRIMARY if code is not None else None
    if primary in _LOCKED:
        return StoreLockedError(
            f"{location} is locked by another process; nothing was written. Try again, or close the other one."
        )
    if primary in _READ_ONLY:
        return StoreReadOnlyError(
            f"{location} cannot be written; nothing was changed. Check the permissions of the file and its folder, "
            "or open a copy."
        )
    if primary in _CORRUPT or "Could not decode to UTF-8" in str(cause):  # the driver's own error has no code
        return StoreCorruptError(
            f"{location} is no valid SQLite database or is damaged ({cause}); nothing was written. Restore a backup, "
            "or try 'sqlite3 FILE .recover'."
        )
    if primary == sqlite3.SQLITE_CANTOPEN:
        return StoreError(f"{location} cannot be opened; check that the folder exists and that it is a file.")
    if primary == sqlite3.SQLITE_FULL:
        return StoreError(
            f"the disk of {location} is full; nothing was written. Free some space and try again."
        )
    return StoreError(f"the database {location} refused: {cause}")
