"""Expansion: the originals come back in the place of a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from tract_jupyter.exceptions import CompressionError, HistoryError
from tract_jupyter.history.past import Past
from tract_jupyter.history.splice import restored
from tract_jupyter.models.compression import COMPRESSED_FROM, ExpandResult
from tract_jupyter.storage.entry import APPEND, Entry
from tract_jupyter.storage.schema import commits as commit_table

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tract_jupyter.engine.refs import Refs
    from tract_jupyter.engine.timelines import Timelines
    from tract_jupyter.engine.tokens import Corrections
    from tract_jupyter.history.splice import Splicer
    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.entry import Draft


class Expander:
    """Expands summaries of the current branch of one tract."""

    def __init__(
        self,
        database: Database,
        rows: CommitRows,
        refs: Refs,
        timelines: Timelines,
        splicer: Splicer,
        corrections: Corrections,
    ) -> None:
        self._database = database
        self._rows = rows
        self._refs = refs
        self._timelines = timelines
        self._corrections = corrections
        self._splicer = splicer

    def expand(self, name: str) -> ExpandResult:
        """Put the originals, as they were when they were compressed, in the place of their summary.

        Raises:
            CompressionError: it is no summary of this branch, or the originals are in another tract or gone.
        """
        here = self._refs.on_branch("expand")
        past = Past.read(here, self._database, self._rows, self._timelines)
        try:
            summary = past.entry(self._refs.resolve(name))
        except HistoryError as error:
            raise CompressionError(str(error)) from None
        drafts = self._originals(summary)
        spliced = self._splicer.write(
            past, {summary.commit_hash}, {summary.commit_hash: drafts}, "expand", summary.commit_hash[:8],
            lambda done: {
                "sources": [summary.commit_hash],
                "results": [entry.commit_hash for entry in done.put],
                "tokens_before": here.context_tokens,
                "tokens_after": done.head.context_tokens,
            },
        )  # fmt: skip
        return ExpandResult(
            branch=past.branch,
            old_head=past.head,
            new_head=spliced.head.commit_hash,
            summary=summary.commit_hash,
            restored=tuple(entry.commit_hash for entry in spliced.put if entry.operation == APPEND),
            copies=spliced.copies,
            tokens_before=self._corrections.tokens(here.context_tokens, past.context.token_source),
            tokens_after=self._corrections.tokens(spliced.head.context_tokens, past.context.token_source),
        )

    def _originals(self, summary: Entry) -> list[Draft]:
        """The messages with their edits and annotations, in the order they had."""
        head, commits = _reference(summary)
        with self._database.read() as connection:
            if self._rows.get(connection, head) is None:
                raise CompressionError(_not_here(connection, summary, head))
            entries = self._rows.lineage(connection, head, Entry).rows
        drafts = [
            restored(entry)
            for entry in entries
            if entry.commit_hash in commits or entry.edit_target in commits
        ]
        if not drafts:
            raise CompressionError(
                f"the metadata of {summary.commit_hash[:8]} names no commits of the history {head[:8]}, so there is "
                "nothing to expand"
            )
        return drafts


def reference(metadata: dict[str, Any]) -> tuple[str, frozenset[str]] | None:
    """The history and the commits that a summary names; None if this is not the metadata of one."""
    found = metadata.get(COMPRESSED_FROM)
    if not isinstance(found, dict):
        return None
    head, commits = found.get("head"), found.get("commits")
    if not isinstance(head, str) or not isinstance(commits, list) or not commits:
        return None
    return head, frozenset(commit for commit in commits if isinstance(commit, str))


def _not_here(connection: Connection, summary: Entry, head: str) -> str:
    """Why a summary's originals cannot be expanded: a copy of it may be in another tract than they are."""
    query = select(commit_table.c.tract_id).where(commit_table.c.commit_hash == head)
    tract_id = connection.scalars(query.limit(1)).first()
    if tract_id is None:
        return (
            f"the originals of {summary.commit_hash[:8]} are gone: gc removed them, or the summary was copied from "
            "another store, where they can be expanded"
        )
    return (
        f"the originals of {summary.commit_hash[:8]} are in another tract, {tract_id!r}, which this summary was copied "
        "from; open that tract, and expand its own summary of them there"
    )


def _reference(summary: Entry) -> tuple[str, frozenset[str]]:
    found = reference(summary.metadata)
    if found is None:
        raise CompressionError(
            f"{summary.commit_hash[:8]} is no summary that compress() made, so there is nothing to expand"
        )
    return found
