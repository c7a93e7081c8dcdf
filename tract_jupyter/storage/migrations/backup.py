"""A copy of an SQLite store before it is upgraded.

The upgrade itself cannot end half-way. The copy is for what comes after it: an older tract_jupyter can read it, and it
has what the new version does not keep, such as priorities that were replaced by others.
"""

from __future__ import annotations

import filecmp
import os
import sqlite3
from contextlib import closing, suppress
from itertools import count
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import StoreError
from tract_jupyter.storage.engines import sqlite_file

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection


def back_up(connection: Connection, version: int) -> Path | None:
    """Copy the store of a connection to `NAME.v<version>.bak` beside it, and return that; None for one in memory.

    The connection holds the write lock and has written nothing yet. A copy that is there already is never overwritten:
    unless it is the same, the new one gets a number.

    Raises:
        StoreError: the copy cannot be made.
    """
    file = sqlite_file(connection)
    if file is None:
        return None
    part = file.with_name(f"{file.name}.v{version}.bak.part")  # only the holder of the lock writes it
    try:
        _copy(file, part)
        return _named(part, file.with_name(f"{file.name}.v{version}.bak"))
    except OSError as error:
        raise StoreError(
            f"{file} must be upgraded, but no copy of it could be made beside it ({error.strerror}); nothing was "
            "changed. Free some space there or make the folder writable, and open it again."
        ) from error
    finally:
        with suppress(OSError):
            part.unlink()


def _copy(file: Path, part: Path) -> None:
    mode = file.stat().st_mode & 0o777  # what only its owner may read stays so
    os.close(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, mode))
    # a connection of its own: SQLite makes no backup of one that is writing
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(part)) as target:
        source.backup(target)


def _named(part: Path, wanted: Path) -> Path:
    for number in count(1):
        name = wanted if number == 1 else wanted.with_name(f"{wanted.name}.{number}")
        if not name.exists():
            return part.rename(name)
        if filecmp.cmp(part, name, shallow=False):
            return name
    raise AssertionError  # count does not end
