"""One commit as the store keeps it: a row with its content, cheap to read by the thousand."""

from __future__ import annotations

import json
from json.encoder import encode_basestring
from typing import Any, Final, NamedTuple

from tract_jupyter.exceptions import StoreCorruptError
from tract_jupyter.models import (
    CommitInfo,
    CommitOperation,
    Priority,
    canonical_json,
    default_priority,
    sha256,
)
from tract_jupyter.storage.columns import from_text
from tract_jupyter.storage.columns import from_json

EMPTY: Final = "{}"
NO_TAGS: Final = "[]"
APPEND, EDIT, ANNOTATE, MERGE = (str(operation) for operation in CommitOperation)
_OPERATIONS = {str(operation): operation for operation in CommitOperation}


class Step(NamedTuple):
    """The part of a commit that counts for the context. Contexts are read by the ten thousand, and read only this."""

    commit_hash: str
    parent_hash: str | None
    generation: int
    content_hash: str
    content_type: str
    operation: str
    edit_target: str | None
    token_count: int
    token_counter: str
    metadata_json: str
    generation_config_json: str
    created_at: str
    priority: str | None
    tools_hash: str | None
    payload: bytes


class Entry(NamedTuple):
    """The columns of `commits` in order, and the content's canonical JSON. Nothing is parsed before it is needed."""

    commit_hash: str
    tract_id: str
    parent_hash: str | None
    content_hash: str
    content_type: str
    operation: str
    edit_target: str | None
    message: str
    token_count: int
    token_counter: str
    generation: int
    metadata_json: str
    generation_config_json: str
    tags_json: str
    created_at: str
    priority: str | None
    retention_json: str | None
    tools_hash: str | None
    context_tokens: int
    context_messages: int
    payload: bytes = b""

    def step(self) -> Step:
        """Return the part that counts for the context."""
        return Step(
            self.commit_hash,
            self.parent_hash,
            self.generation,
            self.content_hash,
            self.content_type,
            self.operation,
            self.edit_target,
            self.token_count,
            self.token_counter,
            self.metadata_json,
            self.generation_config_json,
            self.created_at,
            self.priority,
            self.tools_hash,
            self.payload,
        )

    @property
    def content(self) -> dict[str, Any]:
        """The content, parsed."""
        content: dict[str, Any] = json.loads(self.payload)
        return content

    @property
    def metadata(self) -> dict[str, Any]:
        """The author's metadata, parsed."""
        metadata: dict[str, Any] = from_json(self.metadata_json, dict) if self.metadata_json != EMPTY else {}
        return metadata

    @property
    def generation_config(self) -> dict[str, Any]:
        """The model and parameters it was made with."""
        text = self.generation_config_json
        config: dict[str, Any] = from_json(text, dict) if text != EMPTY else {}
        return config

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags it was made with."""
        return tuple(from_json(self.tags_json, list)) if self.tags_json != NO_TAGS else ()

    @property
    def retention(self) -> dict[str, Any] | None:
        """The criteria of what a compression must keep of it."""
        retention: dict[str, Any] | None = (
            from_json(self.retention_json, dict) if self.retention_json else None
        )
        return retention

    def starting_priority(self) -> Priority:
        """Return the one that it was made with."""
        return Priority(self.priority) if self.priority else default_priority(self.content_type)

    def info(self, priority: Priority, merge_parents: tuple[str, ...] = ()) -> CommitInfo:
        """Return the commit for readers, with the priority in effect."""
        try:
            return CommitInfo(
                self.commit_hash,
                self.tract_id,
                self.parent_hash,
                self.content_hash,
                self.content_type,
                _OPERATIONS[self.operation],
                self.edit_target,
                self.message,
                self.token_count,
                self.token_counter,
                self.generation,
                from_text(self.created_at),
                {} if self.metadata_json == EMPTY else self.metadata,
                {} if self.generation_config_json == EMPTY else self.generation_config,
                () if self.tags_json == NO_TAGS else self.tags,
                priority,
                self.retention if self.retention_json else None,
                merge_parents,
                self.tools_hash,
                self.context_tokens,
                self.context_messages,
            )
        except (KeyError, ValueError, StoreCorruptError) as error:
            raise StoreCorruptError(
                f"commit {self.commit_hash} is damaged in the store; restore a backup"
            ) from error


class Draft(NamedTuple):
    """Everything of a commit but its place: all that a hash covers, except parents and time."""

    content_type: str
    payload: bytes
    content_hash: str
    message: str
    token_count: int
    token_counter: str
    operation: str = APPEND
    edit_target: str | None = None
    priority: str | None = None
    retention_json: str | None = None
    metadata_json: str = EMPTY
    generation_config_json: str = EMPTY
    tags_json: str = NO_TAGS
    tools_hash: str | None = None
    merge_parents: tuple[str, ...] = ()
    source: str | None = None
    """The commit that this is a copy of; later drafts of the same plan may edit or annotate that one."""

    @classmethod
    def of(cls, entry: Entry, **changes: Any) -> Draft:
        """Return a copy of a commit, to be placed elsewhere."""
        copied = cls(
            content_type=entry.content_type,
            payload=entry.payload,
            content_hash=entry.content_hash,
            message=entry.message,
            token_count=entry.token_count,
            token_counter=entry.token_counter,
            operation=entry.operation,
            edit_target=entry.edit_target,
            priority=entry.priority,
            retention_json=entry.retention_json,
            metadata_json=entry.metadata_json,
            generation_config_json=entry.generation_config_json,
            tags_json=entry.tags_json,
            tools_hash=entry.tools_hash,
            source=entry.commit_hash,
        )
        return copied._replace(**changes) if changes else copied


def commit_hash(
    of: Entry | Draft, tract_id: str, parent_hash: str | None, created_at: str, merge_parents: tuple[str, ...]
) -> str:
    """Return the hash of a commit, over all that matters.

    It is that of the canonical JSON of an object with these values under these names; what is optional is left out
    if it is empty. The text is put together here, as most of its parts are JSON already.
    """
    others = f',"merge_parents":{canonical_json(merge_parents)}' if merge_parents else ""
    priority = f',"priority":"{of.priority}"' if of.priority else ""
    retention = f',"retention":{of.retention_json}' if of.retention_json else ""
    tools = f',"tools_hash":"{of.tools_hash}"' if of.tools_hash else ""
    text = (
        f'{{"content_hash":"{of.content_hash}","content_type":{encode_basestring(of.content_type)},'
        f'"created_at":"{created_at}","edit_target":{_name(of.edit_target)},'
        f'"generation_config":{of.generation_config_json}{others},'
        f'"message":{encode_basestring(of.message)},"metadata":{of.metadata_json},'
        f'"operation":"{of.operation}","parent_hash":{_name(parent_hash)}{priority}{retention},'
        f'"tags":{of.tags_json}{tools},"tract_id":{encode_basestring(tract_id)}}}'
    )
    return sha256(text.encode())


def _name(commit: str | None) -> str:
    return f'"{commit}"' if commit else "null"
