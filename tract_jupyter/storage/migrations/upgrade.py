"""Upgrades an older store to the present version in one transaction: it is always either the old one or the new one.

The upgrade itself cannot end half-way. The copy is for what comes after it: an older tract_jupyter can read it, and it
has what the new version does not keep.
"""

from __future__ import annotations

import filecmp
import os
import sqlite3
from contextlib import closing, suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import select

from tract_jupyter.exceptions import StoreCorruptError, StoreError, StoreReadOnlyError, StoreVersionError
from tract_jupyter.storage import migrations
from tract_jupyter.storage.engines import SQLITE, sqlite_file
from tract_jupyter.storage.schema import SCHEMA_VERSION, meta
from tract_jupyter.storage.transaction import Transaction

if TYPE_CHECKING:
    from pathlib import Path

    from alembic.script import Script
    from sqlalchemy import Connection

    from tract_jupyter.storage.connections import Connections
from tract_jupyter.storage.engines import Backend


def upgrade(backend: Backend, connections: Connections) -> None:
    """Bring a store to the present version, unless another process has just done so.

    Of an SQLite file a copy is made first, `NAME.v1.bak` beside it.

    Raises:
        StoreVersionError: no scripts lead from its version to the present one.
        StoreReadOnlyError: it cannot be written.
        StoreError: it is damaged, locked, or there is no space; nothing was changed.
    """
    # tables are made anew; SQLite would take that for the deletion of what others refer to
    before = "PRAGMA foreign_keys=OFF" if backend.name == SQLITE else None
    try:
        with Transaction(backend, connections, is_writing=True, before=before) as connection:
            version = _version(connection)
            if version < SCHEMA_VERSION:
                scripts = _scripts(version, backend)
                if backend.name == SQLITE:
                    _back_up(connection, version)
                _run(scripts, connection)
                _check_references(connection, backend)
    except StoreReadOnlyError as error:
        raise StoreReadOnlyError(
            f"{backend.location} was written by an older tract_jupyter and must be upgraded to store version "
            f"{SCHEMA_VERSION}, but it cannot be written; nothing was changed. Make it and its folder writable and "
            "open it once, or open a copy of it."
        ) from error
    finally:
        connections.renew()  # with what a new connection sets


def _version(connection: Connection) -> int:
    """Read the version again: this transaction keeps others from changing it."""
    return int(connection.execute(select(meta.c.value).where(meta.c.key == "schema_version")).scalar_one())


def _scripts(version: int, backend: Backend) -> list[Script]:
    """Return the scripts that lead from a version to the present one, in their order."""
    known = ScriptDirectory(str(migrations.SCRIPTS)).walk_revisions()
    newer = sorted((one for one in known if int(one.revision) > version), key=lambda one: int(one.revision))
    if [int(one.revision) for one in newer] != list(range(version + 1, SCHEMA_VERSION + 1)):
        raise StoreVersionError(
            f"{backend.location} has store version {version}, and this tract_jupyter does not know how to upgrade that "
            f"to {SCHEMA_VERSION}; open it with the tract_jupyter that wrote it. Nothing was changed."
        )
    return newer


def _run(scripts: list[Script], connection: Connection) -> None:
    # one's own object, as `alembic.op` belongs to all threads
    operations = Operations(MigrationContext.configure(connection))
    for script in scripts:
        module: Any = script.module
        module.upgrade(operations)
        stamp = meta.update().where(meta.c.key == "schema_version")
        connection.execute(stamp.values(value=script.revision))


def _check_references(connection: Connection, backend: Backend) -> None:
    """Check what the transaction was told not to check."""
    if backend.name == SQLITE:
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
        if broken is not None:
            raise StoreCorruptError(
                f"{backend.location} is damaged: a row of {broken[0]} refers to one of {broken[2]} that is missing. It "
                "was not upgraded, nothing was changed; restore a backup."
            )


def _back_up(connection: Connection, version: int) -> Path | None:
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
