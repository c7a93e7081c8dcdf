"""Persisted artifacts in the store of a tract (R50, E11)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pydantic import ValidationError

from tract_jupyter.exceptions import StoreCorruptError, StoreError
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.runs.model import ArtifactView
from tract_jupyter.storage.run_artifacts import StoredArtifact

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.run_artifacts import RunArtifactRows

_OWN_COLUMNS = {"tag", "value", "history"}


class SqlArtifacts:
    """An `ArtifactStore` of one tract. What is put belongs to the transaction of the thread, if one is open."""

    def __init__(self, database: Database, rows: RunArtifactRows) -> None:
        self._database = database
        self._rows = rows

    def load(self, session: str) -> Mapping[str, ArtifactView]:
        """All artifacts of a session key, by tag.

        Raises:
            StoreCorruptError: one is damaged, or a newer version wrote it.
        """
        with self._database.read() as connection:
            stored = self._rows.of(connection, session)
        return {row.tag: _view(row) for row in stored}

    def transaction(self) -> AbstractContextManager[object]:
        """Keep all that is put meanwhile on this thread, or nothing; within another one it is part of that."""
        return self._database.write()

    def put(self, session: str, artifacts: Sequence[ArtifactView]) -> None:
        """Keep artifacts, each in the place of that of the same tag; of two with one tag the last.

        Raises:
            StoreError: there is no session key, or they cannot be stored.
            ContentError: a value has no JSON form.
        """
        if not session:
            raise StoreError(
                "an artifact cannot be persisted without a session key, and this run has no profile to take one from; "
                "use persistence run_only, or run it with a profile"
            )
        stored = {one.tag: _stored(session, one) for one in artifacts}
        with self._database.write() as connection:
            self._rows.replace(connection, list(stored.values()))


def _stored(session: str, artifact: ArtifactView) -> StoredArtifact:
    settings = artifact.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=_OWN_COLUMNS)
    value, history = canonical_json(artifact.value), canonical_json(list(artifact.history))
    return StoredArtifact(session, artifact.tag, value, history, canonical_json(settings))


def _view(row: StoredArtifact) -> ArtifactView:
    try:
        columns = {
            "tag": row.tag,
            "value": json.loads(row.value_json),
            "history": json.loads(row.history_json),
        }
        return ArtifactView.from_dict({**json.loads(row.settings_json), **columns})
    except (ValidationError, ValueError, TypeError, RecursionError) as error:
        raise StoreCorruptError(
            f"the artifact art.{row.tag} is damaged in the store, or a newer tract_jupyter wrote it "
            f"({type(error).__name__}); upgrade, restore a backup, or clear the artifacts of this profile"
        ) from error
