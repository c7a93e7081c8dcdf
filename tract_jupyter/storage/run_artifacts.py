"""Rows of artifacts that outlive their run, by session and tag."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import bindparam, select, tuple_

from tract_jupyter.storage.clock import now_text
from tract_jupyter.storage.schema import run_artifacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection


class StoredArtifact(NamedTuple):
    """An artifact as it lies in the store: its value, its history, and what else is known of it, as JSON."""

    session_key: str
    tag: str
    value_json: str
    history_json: str
    settings_json: str


_TABLE = run_artifacts.c
_IN_SESSION = (_TABLE.tract_id == bindparam("tract"), _TABLE.session_key == bindparam("session"))
# made once: building a statement takes longer than running it
_OF = select(*(_TABLE[name] for name in StoredArtifact._fields)).where(*_IN_SESSION).order_by(_TABLE.tag)
_REMOVE = run_artifacts.delete().where(
    _TABLE.tract_id == bindparam("tract"),
    tuple_(_TABLE.session_key, _TABLE.tag).in_(bindparam("keys", expanding=True)),
)
_INSERT = run_artifacts.insert()


class RunArtifactRows:
    """The persisted artifacts of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def of(self, connection: Connection, session_key: str) -> list[StoredArtifact]:
        """The artifacts of a session, by tag."""
        rows = connection.execute(_OF, {"tract": self.tract_id, "session": session_key})
        return [StoredArtifact._make(row) for row in rows]

    def replace(self, connection: Connection, artifacts: Sequence[StoredArtifact]) -> None:
        """Store artifacts in the place of those of the same session and tag; each may be given once."""
        if not artifacts:
            return
        keys = [(one.session_key, one.tag) for one in artifacts]
        connection.execute(_REMOVE, {"tract": self.tract_id, "keys": keys})
        common = {"tract_id": self.tract_id, "created_at": now_text()}
        connection.execute(_INSERT, [{**common, **one._asdict()} for one in artifacts])
