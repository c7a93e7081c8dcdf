"""Rows of tags that were added to commits, and of what tags are for."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from tract_jupyter.storage.clock import now_text
from tract_jupyter.storage.columns import from_json
from tract_jupyter.storage.schema import commits, tag_annotations, tag_registry

if TYPE_CHECKING:
    from sqlalchemy import Connection


class TagRows:
    """The tags of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def add(self, connection: Connection, target_hash: str, tag: str) -> None:
        """Add a tag to a commit, unless it is there."""
        values = {"tract_id": self.tract_id, "target_hash": target_hash, "tag": tag, "created_at": now_text()}
        connection.execute(_insert(connection.dialect.name, "tags").on_conflict_do_nothing(), values)

    def remove(self, connection: Connection, target_hash: str, tag: str) -> bool:
        """Remove an added tag; False if it was not there."""
        t = tag_annotations.c
        where = (t.tract_id == self.tract_id, t.target_hash == target_hash, t.tag == tag)
        return connection.execute(tag_annotations.delete().where(*where)).rowcount > 0

    def all(self, connection: Connection) -> list[tuple[str, str]]:
        """(commit, tag) of all that were added."""
        query = select(tag_annotations.c.target_hash, tag_annotations.c.tag)
        rows = connection.execute(query.where(tag_annotations.c.tract_id == self.tract_id))
        return [(row.target_hash, row.tag) for row in rows]

    def made_with(self, connection: Connection) -> list[str]:
        """The tags that commits were made with, once for each commit."""
        where = (commits.c.tract_id == self.tract_id, commits.c.tags_json != "[]")
        return [
            tag
            for text in connection.scalars(select(commits.c.tags_json).where(*where))
            for tag in from_json(text, list)
        ]

    def describe(self, connection: Connection, tag: str, description: str) -> None:
        """Say what a tag is for; again replaces it."""
        values = {"tract_id": self.tract_id, "tag": tag, "description": description, "created_at": now_text()}
        insert = _insert(connection.dialect.name, "registry")
        keys = [tag_registry.c.tract_id, tag_registry.c.tag]
        connection.execute(
            insert.on_conflict_do_update(index_elements=keys, set_={"description": description}), values
        )

    def descriptions(self, connection: Connection) -> dict[str, str]:
        """What each registered tag is for."""
        query = select(tag_registry.c.tag, tag_registry.c.description)
        return {
            row.tag: row.description
            for row in connection.execute(query.where(tag_registry.c.tract_id == self.tract_id))
        }


@cache
def _insert(dialect_name: str, table: str) -> Any:
    dialect = import_module(f"sqlalchemy.dialects.{dialect_name}")
    return dialect.insert(tag_annotations if table == "tags" else tag_registry)
