"""One commit as the store keeps it: a row with its content, cheap to read by the thousand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import StoreCorruptError
from tract_jupyter.models.canonical import canonical_json, sha256
from tract_jupyter.models.commit import CommitInfo, CommitOperation
from tract_jupyter.storage.clock import from_text

if TYPE_CHECKING:
    from tract_jupyter.models.priority import Priority

EMPTY = "{}"
_quoted = json.JSONEncoder(ensure_ascii=False).encode


class Step(NamedTuple):
    """What of a commit counts for the context. Contexts are read by the ten thousand, so this is all they read."""

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
        """The part that counts for the context."""
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
        """What was committed."""
        content: dict[str, Any] = json.loads(self.payload)
        return content

    @property
    def metadata(self) -> dict[str, Any]:
        """What the author added."""
        metadata: dict[str, Any] = json.loads(self.metadata_json) if self.metadata_json != EMPTY else {}
        return metadata

    @property
    def generation_config(self) -> dict[str, Any]:
        """The model and parameters it was made with."""
        text = self.generation_config_json
        config: dict[str, Any] = json.loads(text) if text != EMPTY else {}
        return config

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags it was made with."""
        return tuple(json.loads(self.tags_json)) if self.tags_json != "[]" else ()

    @property
    def retention(self) -> dict[str, Any] | None:
        """What a compression must keep of it."""
        retention: dict[str, Any] | None = json.loads(self.retention_json) if self.retention_json else None
        return retention

    def hashed(self, merge_parents: tuple[str, ...] = ()) -> str:
        """The hash that these columns give, over all that matters.

        It is that of the canonical JSON of an object with these values under these names; what is optional is left out
        if it is empty. The text is put together here, as most of its parts are JSON already.
        """
        parts = [
            f'{{"content_hash":"{self.content_hash}","content_type":{_quoted(self.content_type)}',
            f'"created_at":"{self.created_at}","edit_target":{_name(self.edit_target)}',
            f'"generation_config":{self.generation_config_json}',
            f'"merge_parents":{canonical_json(merge_parents)}' if merge_parents else None,
            f'"message":{_quoted(self.message)},"metadata":{self.metadata_json}',
            f'"operation":"{self.operation}","parent_hash":{_name(self.parent_hash)}',
            f'"priority":"{self.priority}"' if self.priority else None,
            f'"retention":{self.retention_json}' if self.retention_json else None,
            f'"tags":{self.tags_json}',
            f'"tools_hash":"{self.tools_hash}"' if self.tools_hash else None,
            f'"tract_id":{_quoted(self.tract_id)}}}',
        ]
        return sha256(",".join(part for part in parts if part is not None).encode())

    def info(self, priority: Priority, merge_parents: tuple[str, ...] = ()) -> CommitInfo:
        """The same for readers, with the priority in effect."""
        try:
            return CommitInfo(
                commit_hash=self.commit_hash,
                tract_id=self.tract_id,
                parent_hash=self.parent_hash,
                content_hash=self.content_hash,
                content_type=self.content_type,
                operation=CommitOperation(self.operation),
                edit_target=self.edit_target,
                message=self.message,
                token_count=self.token_count,
                token_counter=self.token_counter,
                generation=self.generation,
                created_at=from_text(self.created_at),
                metadata=self.metadata,
                generation_config=self.generation_config,
                tags=self.tags,
                priority=priority,
                retention=self.retention,
                merge_parents=merge_parents,
                tools_hash=self.tools_hash,
                context_tokens=self.context_tokens,
                context_messages=self.context_messages,
            )
        except ValueError as error:
            raise StoreCorruptError(
                f"commit {self.commit_hash} is damaged in the store; restore a backup"
            ) from error


def _name(commit_hash: str | None) -> str:
    return f'"{commit_hash}"' if commit_hash else "null"


def json_text(value: Any) -> str:
    """Canonical JSON, without work for nothing."""
    return canonical_json(value) if value else EMPTY
