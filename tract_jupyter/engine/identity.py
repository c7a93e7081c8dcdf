"""Which tract of a store is meant: the named one, else the one that the store was made with."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from sqlalchemy import select

from tract_jupyter.engine.refs import DEFAULT_BRANCH
from tract_jupyter.storage.refs import RefRows
from tract_jupyter.storage.schema import meta

if TYPE_CHECKING:
    from tract_jupyter.storage.database import Database

_KEY = "default_tract"


def find_or_make_tract(database: Database, tract_id: str | None = None) -> str:
    """Return the id of the tract to work on; make the tract if it is not there."""
    with database.read() as connection:
        default = connection.scalar(select(meta.c.value).where(meta.c.key == _KEY))
        wanted = tract_id or default
        if wanted is not None and RefRows(wanted).was_made(connection):
            return wanted
    with database.write() as connection:
        default = connection.scalar(select(meta.c.value).where(meta.c.key == _KEY))
        wanted = tract_id or default or uuid4().hex
        if default is None:
            connection.execute(meta.insert().values(key=_KEY, value=wanted))
        rows = RefRows(wanted)
        if not rows.was_made(connection):
            rows.create(connection, DEFAULT_BRANCH, None)
            rows.point_head(connection, DEFAULT_BRANCH)
    return wanted
