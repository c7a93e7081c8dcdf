"""Writing commits and reading them back.

A commit's hash covers everything that matters: content, parents, operation, edit target, message, metadata,
generation config, tags and time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import CommitNotFoundError, EditTargetError, StoreLockedError
from tract_jupyter.models.canonical import canonical_json, digest
from tract_jupyter.models.commit import CommitInfo, CommitOperation
from tract_jupyter.models.content import validate_content
from tract_jupyter.models.priority import Priority
from tract_jupyter.storage.clock import to_text

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tract_jupyter.engine.refs import Refs
    from tract_jupyter.models.content import Content
    from tract_jupyter.protocols import TokenCounter
    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.refs import RefRows

_MESSAGE_LENGTH = 100
_MOVE_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Draft:
    """A commit before it has a place in the history."""

    content: Content
    operation: CommitOperation = CommitOperation.APPEND
    edit_target: str | None = None
    message: str | None = None
    priority: Priority | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    generation_config: dict[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()


class Commits:
    """The commits of one tract."""

    def __init__(
        self, database: Database, rows: CommitRows, ref_rows: RefRows, refs: Refs, counter: TokenCounter
    ) -> None:
        self._database = database
        self._rows = rows
        self._ref_rows = ref_rows
        self._refs = refs
        self._counter = counter

    def commit(self, draft: Draft) -> CommitInfo:
        """Append the draft to the current branch.

        A lost race for the branch's tip is tried again on the new tip.
        """
        target = self._edit_target(draft)
        content = draft.content.model_dump(mode="json")
        values = {"content_hash": digest(content), "payload": canonical_json(content)}
        tokens = self._counter.count_text(draft.content.message_text())
        for _ in range(_MOVE_ATTEMPTS):
            with self._database.write() as connection:
                info = self._insert(connection, draft, target, tokens, **values)
                if info is not None:
                    return info
        raise StoreLockedError("other writers kept moving the branch; nothing was committed. Try again.")

    def get(self, name: str) -> CommitInfo:
        """One commit by hash, prefix or branch."""
        with self._database.read() as connection:
            return self._known(connection, self._refs.resolve(name))

    def content(self, name: str) -> dict[str, Any]:
        """The content of a commit, as the dict that was committed."""
        with self._database.read() as connection:
            info = self._known(connection, self._refs.resolve(name))
            return self._rows.payloads(connection, [info.content_hash])[info.content_hash]

    def log(self, limit: int | None = 20, *, head: str | None = None) -> list[CommitInfo]:
        """The newest commits of the current branch first."""
        start = head or self._refs.head
        if start is None:
            return []
        with self._database.read() as connection:
            return self._rows.chain(connection, start, limit)

    def annotate(self, name: str, priority: Priority, reason: str) -> None:
        """Give a commit another priority."""
        target = self._refs.resolve(name)
        with self._database.write() as connection:
            self._rows.annotate(connection, target, priority, reason)

    def _known(self, connection: Connection, commit_hash: str) -> CommitInfo:
        info = self._rows.get(connection, commit_hash)
        if info is None:
            raise CommitNotFoundError(f"no commit {commit_hash[:12]} in this tract")
        return info

    def _edit_target(self, draft: Draft) -> str | None:
        if draft.operation is CommitOperation.APPEND:
            if draft.edit_target is not None:
                raise EditTargetError("an edit_target goes with operation='edit'")
            return None
        if draft.edit_target is None:
            raise EditTargetError("an edit needs edit_target: the hash of the commit to replace")
        try:
            target = self.get(draft.edit_target)
        except CommitNotFoundError as error:
            raise EditTargetError(str(error)) from None
        if target.operation is CommitOperation.EDIT:
            raise EditTargetError(
                f"{target.short_hash} is itself an edit; edit the original, {target.edit_target or ''}"
            )
        return target.commit_hash

    def _insert(
        self, connection: Connection, draft: Draft, target: str | None, tokens: int, *, content_hash: str, payload: str
    ) -> CommitInfo | None:
        branch = self._refs.current_branch_in(connection)
        parent = self._ref_rows.tip(connection, branch)
        above = self._rows.get(connection, parent) if parent else None
        values: dict[str, Any] = {
            "parent_hash": parent,
            "content_type": draft.content.content_type,
            "operation": draft.operation.value,
            "edit_target": target,
            "message": draft.message if draft.message is not None else _first_line(draft.content),
            "metadata_json": canonical_json(draft.metadata),
            "generation_config_json": canonical_json(draft.generation_config),
            "tags_json": canonical_json(sorted(set(draft.tags))),
            "created_at": to_text(datetime.now(UTC)),
        }
        values["commit_hash"] = digest({**values, "content_hash": content_hash, "tract_id": self._rows.tract_id})
        values |= {
            "generation": above.generation + 1 if above else 0,
            "token_count": tokens,
            "token_counter": self._counter.name,
        }
        self._rows.insert(connection, values, content_hash, payload)
        if not self._ref_rows.move(connection, branch, parent, values["commit_hash"]):
            connection.rollback()
            return None
        priority = draft.priority or draft.content.default_priority
        if priority is not Priority.NORMAL:
            reason = "" if draft.priority else f"default of {draft.content.content_type}"
            self._rows.annotate(connection, values["commit_hash"], priority, reason)
        return self._known(connection, values["commit_hash"])


def draft(content: Content | dict[str, Any], **options: Any) -> Draft:
    """Check what a caller gave and make a draft of it."""
    return Draft(validate_content(content), **options)


def _first_line(content: Content) -> str:
    text = " ".join(content.message_text()[:500].split())
    return text if len(text) <= _MESSAGE_LENGTH else text[: _MESSAGE_LENGTH - 1] + "…"
