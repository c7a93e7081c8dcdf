"""Writing commits and reading them back.

A commit's hash covers everything that matters: content, parents, operation, edit target, message, metadata,
generation config, tags and time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import CommitNotFoundError, EditTargetError, StoreLockedError
from tract_jupyter.models.canonical import canonical_json, digest, plain, sha256
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
    from tract_jupyter.storage.refs import Position, RefRows

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
        text = draft.content.message_text()
        payload = canonical_json(dict(draft.content)).encode()
        parts = {
            "tract_id": self._rows.tract_id,
            "content_hash": sha256(payload),
            "content_type": draft.content.content_type,
            "operation": draft.operation,
            "edit_target": target.commit_hash if target else None,
            "message": _first_line(text) if draft.message is None else draft.message,
            "metadata": plain(draft.metadata),
            "generation_config": plain(draft.generation_config),
            "tags": tuple(sorted(set(draft.tags))),
        }
        tokens = self._counter.count_text(text)
        for _ in range(_MOVE_ATTEMPTS):
            with self._database.write() as connection:
                here = self._ref_rows.position(connection)
                self._check_history(connection, here, target)
                info = self._place(parts, here, tokens)
                self._rows.insert(connection, info, payload)
                if self._ref_rows.move(connection, here.branch, here.commit_hash, info.commit_hash):
                    return self._with_priority(connection, info, draft, target)
                connection.rollback()
        raise StoreLockedError("other writers kept moving the branch; nothing was committed. Try again.")

    def get(self, name: str) -> CommitInfo:
        """One commit by hash, prefix or branch."""
        with self._database.read() as connection:
            return self._known(connection, self._refs.find(connection, name))

    def content(self, name: str) -> dict[str, Any]:
        """The content of a commit, as the dict that was committed."""
        with self._database.read() as connection:
            info = self._known(connection, self._refs.find(connection, name))
            return self._rows.payloads(connection, [info.content_hash])[info.content_hash]

    def log(self, limit: int | None = 20, *, head: str | None = None) -> list[CommitInfo]:
        """The newest commits of the current branch first."""
        if limit is not None and limit < 1:
            return []
        with self._database.read() as connection:
            start = head or self._ref_rows.position(connection).commit_hash
            return self._rows.chain(connection, start, limit) if start else []

    def annotate(self, name: str, priority: Priority, reason: str) -> None:
        """Give a commit another priority. An edit's is that of the commit it edits."""
        with self._database.write() as connection:
            info = self._known(connection, self._refs.find(connection, name))
            self._rows.annotate(connection, info.edit_target or info.commit_hash, priority, reason)

    def _known(self, connection: Connection, commit_hash: str) -> CommitInfo:
        info = self._rows.get(connection, commit_hash)
        if info is None:
            raise CommitNotFoundError(f"no commit {commit_hash[:12]} in this tract")
        return info

    def _edit_target(self, draft: Draft) -> CommitInfo | None:
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
        return target

    def _check_history(self, connection: Connection, here: Position, target: CommitInfo | None) -> None:
        """Refuse an edit that would change nothing here."""
        if target is None or (
            here.commit_hash and self._rows.is_in_history(connection, here.commit_hash, target)
        ):
            return
        raise EditTargetError(
            f"{target.short_hash} is not in the history of branch {here.branch!r}; switch first"
        )

    def _place(self, parts: dict[str, Any], here: Position, tokens: int) -> CommitInfo:
        now = datetime.now(UTC)
        parts = {**parts, "parent_hash": here.commit_hash}
        return CommitInfo(
            commit_hash=digest({**parts, "created_at": to_text(now)}),
            created_at=now,
            generation=here.generation + 1,
            token_count=tokens,
            token_counter=self._counter.name,
            **parts,
        )

    def _with_priority(
        self, connection: Connection, info: CommitInfo, draft: Draft, target: CommitInfo | None
    ) -> CommitInfo:
        """Annotate a new commit. An edit keeps the priority of its target, and gives it the one that was asked for."""
        if target is not None:
            if draft.priority is not None:
                self._rows.annotate(connection, target.commit_hash, draft.priority, "")
            return info
        priority = draft.priority or draft.content.default_priority
        if priority is Priority.NORMAL:
            return info
        reason = "" if draft.priority else f"default of {info.content_type}"
        self._rows.annotate(connection, info.commit_hash, priority, reason)
        return replace(info, priority=priority)


def draft(content: Content | dict[str, Any], **options: Any) -> Draft:
    """Check what a caller gave and make a draft of it."""
    return Draft(validate_content(content), **options)


def _first_line(text: str) -> str:
    text = " ".join(text[:500].replace("\0", " ").split())  # PostgreSQL's text has no NUL
    return text if len(text) <= _MESSAGE_LENGTH else text[: _MESSAGE_LENGTH - 1] + "…"
