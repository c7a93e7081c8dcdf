"""Find or create a tract by its id. Without an id, use the store's default tract."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from uuid import uuid4

from sqlalchemy import select

from tract_jupyter.context.refs import DEFAULT_BRANCH, check_name
from tract_jupyter.exceptions import BranchExistsError, SessionError
from tract_jupyter.storage import AGENT_HEAD, RefRows, SpawnRows, TractRows, schema

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tract_jupyter.context.repository import Repository
    from tract_jupyter.storage import Database

DEFAULT_NAME = "main"
_KEY = "default_tract"
_ID = re.compile(r"[\w.-]{1,32}")  # as wide as the columns; ':' marks the branch of an agent


def find_or_make_tract(database: Database, tract_id: str | None = None) -> str:
    """Return the id of the tract to work on. Create a missing tract."""
    with database.read() as connection:
        wanted = tract_id or _default(connection)
        if wanted is not None and RefRows(wanted).has_head(connection):
            return wanted
    with database.write() as connection:
        wanted = tract_id or _default(connection) or uuid4().hex
        if not RefRows(wanted).has_head(connection):
            make_tract(connection, wanted)
    return wanted


def make_tract(connection: Connection, tract_id: str, display_name: str = DEFAULT_NAME) -> None:
    """Create a tract with an empty branch. The first tract of a store is its default."""
    if not (isinstance(tract_id, str) and _ID.fullmatch(tract_id)):
        raise SessionError(
            f"invalid tract id {tract_id!r}; use 1 to 32 letters, digits, '_', '-' or '.', as in 'writer-2'"
        )
    if _default(connection) is None:
        connection.execute(schema.meta.insert().values(key=_KEY, value=tract_id))
    rows = RefRows(tract_id)
    rows.create(connection, DEFAULT_BRANCH, None)
    rows.point_head(connection, DEFAULT_BRANCH)
    TractRows().add(connection, tract_id, display_name)


def make_side_branch(
    repository: Repository, tract_id: str, branch: str, purpose: str, *, is_new: bool
) -> None:
    """Create an empty branch with its own HEAD, in a child tract. Existing ones do not change.

    The HEAD returns to the branch if other code moved it.
    """
    check_name(branch)
    rows = RefRows(tract_id, AGENT_HEAD + branch)
    with repository.database.write() as connection:
        if not RefRows(tract_id).has_head(connection):
            from tract_jupyter.models import Inheritance

            make_tract(connection, tract_id, purpose)
            head = repository.ref_rows.position(connection).commit_hash
            SpawnRows(tract_id).add(connection, repository.tract_id, head, purpose, Inheritance.NOTHING)
        if is_new and rows.exists(connection, branch):
            raise BranchExistsError(
                f"tract {tract_id!r} has a branch {branch!r} already; choose another name"
            )
        if not rows.exists(connection, branch):
            rows.create(connection, branch, None)
        if not rows.has_head(connection) or rows.position(connection).branch != branch:
            rows.point_head(connection, branch)


def _default(connection: Connection) -> str | None:
    return connection.scalar(select(schema.meta.c.value).where(schema.meta.c.key == _KEY))
