"""Conversion of database errors into errors of this package, and readers for signed values.

The readers return an empty value for an unreadable one. This is safe for signed values: no signature covers the empty
value.
"""

from __future__ import annotations

import json
import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tract_jupyter.exceptions import (
    StoreCorruptError,
    StoreError,
    StoreLockedError,
    StoreReadOnlyError,
    StoreReferenceError,
)
from tract_jupyter.storage.columns import from_text

# SQLite's primary result codes, https://www.sqlite.org/rescode.html, and PostgreSQL's SQLSTATEs,
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_LOCKED: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, "55P03", "40001", "40P01", "55006"}
_READ_ONLY: Final = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, "25006", "42501"}
_CORRUPT: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_DAMAGED: Final = {"XX001", "XX002"}
_FULL: Final = {sqlite3.SQLITE_FULL, "53100"}
_FOREIGN_KEY: Final = {sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY, "23503"}
_LOST: Final = {"57P01", "57P02", "57P05", "25P03"}
_PRIMARY: Final = 0xFF  # an extended code keeps the primary one in its low byte


def translate(cause: BaseException, location: str, *, committing: bool = False) -> StoreError:
    """Return our error for the driver's.

    Args:
        cause: the driver's error.
        location: the store's path or URL, without its password.
        committing: True for an error of the commit. After a lost connection, the result of the commit is unknown.
    """
    code = _code(cause)
    if code in _LOCKED:  # including deadlocks and serialization failures
        return StoreLockedError(
            f"{location} is locked by another process; nothing was written. Try again, or close the other process."
        )
    if code in _READ_ONLY:
        of_others = _read_only_beside(location)
        if of_others:
            return StoreReadOnlyError(
                f"{location} is read-only, because you may not write {of_others}; nothing was changed. Another user "
                "opened the store. Allow both of you to write these files, the store and its folder, or open a copy."
            )
        return StoreReadOnlyError(
            f"{location} is read-only; nothing was changed. Check the permissions of "
            f"{_of_user(code)}, or open a copy."
        )
    # these errors have no code: the driver's own, and the one for a name in SQLite's message that is not UTF-8
    no_text = isinstance(cause, UnicodeDecodeError) or "Could not decode to UTF-8" in str(cause)
    if code in _CORRUPT or no_text:
        return StoreCorruptError(
            f"{location} is not a valid SQLite database or is damaged ({cause}); nothing was written. Restore a "
            "backup, or try 'sqlite3 FILE .recover'."
        )
    if code in _DAMAGED:
        return StoreCorruptError(
            f"{location} is damaged ({_line(cause)}); nothing was written. Restore a backup."
        )
    return _other(code, cause, location, committing=committing)


def _read_only_beside(location: str) -> str:
    """Return the files beside a writable SQLite file that this user may not write."""
    files = [f"{location}{end}" for end in ("-shm", "-wal")]
    if not os.access(location, os.W_OK):
        return ""
    return ", ".join(file for file in files if os.path.exists(file) and not os.access(file, os.W_OK))  # noqa: PTH110 # a URL is no path


def _not_opened(location: str) -> StoreError:
    path = Path(location).absolute()
    if path.is_dir():
        return StoreError(f"{location} is a folder; use the path of a file.")
    if path.parent.is_dir():
        return StoreError(
            f"{location} cannot be opened, although its folder exists; check the name and the permissions of both."
        )
    return StoreError(
        f"{location} cannot be opened; check that the folder exists and that the path is a file."
    )


def _other(code: int | str | None, cause: BaseException, location: str, *, committing: bool) -> StoreError:
    if code == sqlite3.SQLITE_CANTOPEN:
        return _not_opened(location)
    if code in _FULL:
        return StoreError(
            f"the disk of {location} is full; nothing was written. Free some space and try again."
        )
    if code == sqlite3.SQLITE_IOERR:
        return StoreError(
            f"the disk of {location} failed ({cause}); nothing was written. Check the free space and the disk."
        )
    if {getattr(cause, "sqlite_errorcode", None), code} & _FOREIGN_KEY:
        return StoreReferenceError(
            f"a referenced row was removed from {location}, for example by gc in another process; nothing was "
            "written. Read the log, and try again."
        )
    if _is_lost(code, cause):
        return _lost(cause, location, committing=committing)
    return StoreError(f"the database {location} reported an error: {_line(cause)}")


def _lost(cause: BaseException, location: str, *, committing: bool) -> StoreError:
    """Return the error for a server that is missing, refuses the connection, or went away."""
    if committing:
        return StoreError(
            f"the connection to {location} was lost during the commit ({_line(cause)}), so the change may or may not "
            "be stored. Read the log before you try again."
        )
    return StoreError(
        f"no connection to {location} ({_line(cause)}); nothing was written. Check the server, and the address, user, "
        "password and name of the database."
    )


def _code(cause: BaseException) -> int | str | None:
    """Return SQLite's primary code, or PostgreSQL's five characters."""
    number = getattr(cause, "sqlite_errorcode", None)
    state: str | None = getattr(cause, "sqlstate", None)
    return number & _PRIMARY if number is not None else state


def _is_lost(code: int | str | None, cause: BaseException) -> bool:
    """Return True if the connection was lost or refused. An error without a code does not come from the server."""
    if isinstance(code, str):
        return code in _LOST or code.startswith("08")
    return code is None and type(cause).__name__ in {"OperationalError", "ConnectionTimeout"}


def _of_user(code: int | str | None) -> str:
    return "your database user" if isinstance(code, str) else "the file and its folder"


def _line(cause: BaseException) -> str:
    """Return the first line of the error. PostgreSQL's other lines show the statement."""
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]


UNREADABLE = datetime.fromtimestamp(0, UTC)
"""The replacement for an unreadable time."""


def read_dict(text: Any) -> dict[str, Any]:
    """Return the JSON object in a text; an empty one if the text is invalid."""
    try:
        data = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def read_moment(text: Any) -> datetime:
    """Return the time in a text; 1970 if the text is invalid."""
    try:
        return from_text(text)
    except StoreCorruptError:
        return UNREADABLE
