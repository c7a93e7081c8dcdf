"""A branch's whole history at one moment, for what rewrites it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import HistoryError
from tract_jupyter.models.priority import Priority
from tract_jupyter.storage.entry import APPEND, Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.engine.timelines import Timelines
    from tract_jupyter.models.context import CompiledContext, Message
    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.refs import Position


@dataclass(frozen=True, slots=True)
class Past:
    """What a branch stands for: commits in the order of the context, and what became of them."""

    here: Position
    entries: list[Entry]
    merged: frozenset[str]
    """The commits that came by merges."""
    context: CompiledContext
    messages: dict[str, Message]
    """Of each append, with the edit and the priority that count; also of skipped ones."""
    place: dict[str, int]
    """Where each commit stands in `entries`."""
    retention: dict[str, dict[str, Any]]
    """What is to be kept of an append, as its author, an edit or an annotation said last."""

    @classmethod
    def read(cls, here: Position, database: Database, rows: CommitRows, timelines: Timelines) -> Past:
        """Read the history that ends at a position, which is a commit."""
        head = here.commit_hash or ""
        with database.read() as connection:
            lineage = rows.lineage(connection, head, Entry)
        with timelines.lock:
            timeline = timelines.at(head)
            context = timeline.context()
            appended = (step for step in timeline.steps if step.operation == APPEND)
            messages = {step.commit_hash: timeline.message(step) for step in appended}
        place = {entry.commit_hash: index for index, entry in enumerate(lineage.rows)}
        retention = {
            entry.edit_target or entry.commit_hash: entry.retention
            for entry in lineage.rows
            if entry.retention is not None
        }
        return cls(here, lineage.rows, lineage.merged, context, messages, place, retention)

    @property
    def head(self) -> str:
        """The newest commit."""
        return self.here.commit_hash or ""

    @property
    def branch(self) -> str:
        """The branch, which there is one of."""
        return self.here.branch or ""

    def appends(self) -> Iterator[Entry]:
        """The commits that are messages, in order."""
        return (entry for entry in self.entries if entry.operation == APPEND)

    def priority(self, entry: Entry) -> Priority:
        """The priority in effect, of an append."""
        return self.messages[entry.commit_hash].priority

    def criteria(self, entry: Entry) -> dict[str, Any] | None:
        """What a summary must keep of an append. Only what is important has such."""
        important = self.priority(entry) is Priority.IMPORTANT
        return self.retention.get(entry.commit_hash) if important else None

    def entry(self, commit_hash: str) -> Entry:
        """The commit of a full hash; for an edit or annotation, the message that it changes.

        Raises:
            HistoryError: it is not in this history.
        """
        place = self.place.get(commit_hash)
        if place is None:
            raise HistoryError(
                f"{commit_hash[:8]} is not in the history of branch {self.branch!r}; 'log' lists what is"
            )
        entry = self.entries[place]
        return self.entry(entry.edit_target) if entry.edit_target else entry
