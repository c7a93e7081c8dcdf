"""Putting messages in the place of others in the middle of a history.

What stands before the first change stays as it is, with its hashes, so that a provider's cache holds up to there. All
that comes after it is placed anew, in the order of the context: what merges brought becomes plain commits, and the
merges themselves, which say nothing, are left out. Edits and annotations follow the copies of what they change; those
of messages that are gone go with them. Tags that were added later are added to the copies, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import select

from tract_jupyter.context.ancestry import Past
from tract_jupyter.context.writer import COPIED, Plan
from tract_jupyter.exceptions import CompressionError, HistoryError
from tract_jupyter.models.compression import COMPRESSED_FROM, ExpandResult
from tract_jupyter.storage.entry import APPEND, MERGE, Draft, Entry
from tract_jupyter.storage.refs import Position
from tract_jupyter.storage.schema import commits as commit_table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sqlalchemy import Connection

    from tract_jupyter.context.refs import Refs, Tags
    from tract_jupyter.context.timeline import Timelines
    from tract_jupyter.context.tokens import Corrections
    from tract_jupyter.context.writer import Writer
    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.journal import EventRows


@dataclass(frozen=True, slots=True)
class Spliced:
    """What was written."""

    head: Entry
    """The newest commit."""
    put: tuple[Entry, ...]
    """The commits of the new drafts, in order."""
    copies: dict[str, str]
    """The new hash of each commit that was placed anew."""


class Splicer:
    """Rewrites the current branch of one tract."""

    def __init__(self, writer: Writer, tags: Tags, events: EventRows) -> None:
        self._writer = writer
        self._tags = tags
        self._events = events

    def write(
        self,
        past: Past,
        dropped: Collection[str],
        put: Mapping[str, Sequence[Draft]],
        operation: str,
        message: str,
        event: Callable[[Spliced], dict[str, Any]],
    ) -> Spliced:
        """Leave out the messages `dropped`, and put drafts in the places of some of them, in one transaction.

        Raises:
            BranchMovedError: somebody else moved the branch since `past` was read; nothing was changed.
        """
        start = _start(past, dropped)
        pieces = _pieces(past.entries[start:], dropped, put)
        base = Position.of(past.branch, past.entries[start - 1]) if start else Position(past.branch, None)
        result: list[Spliced] = []

        def also(connection: Connection, entries: list[Entry]) -> None:
            spliced = _spliced(pieces, entries)
            self._tags.copy(connection, spliced.copies)
            data = {
                "branch": past.branch,
                "old": past.head,
                "new": spliced.head.commit_hash,
                **event(spliced),
            }
            self._events.append(connection, operation, "user", data)
            result.append(spliced)

        drafts = [piece.draft for piece in pieces]
        self._writer.write(Plan(past.branch, past.head, base, drafts, operation, message), also)
        return result[0]


class _Piece(NamedTuple):
    draft: Draft
    is_new: bool


def restored(entry: Entry) -> Draft:
    """A copy of a commit that was left out of the history; an edit or annotation changes the restored message.

    The original may be in the history as well, by a merge; the mark keeps apart what changes the one and the other.
    """
    if entry.edit_target is None:
        return Draft.of(entry, source=COPIED + entry.commit_hash)
    return Draft.of(entry, source=COPIED + entry.commit_hash, edit_target=COPIED + entry.edit_target)


def _start(past: Past, dropped: Collection[str]) -> int:
    """Where the part begins that is placed anew: before the first change, after a commit of the branch's own."""
    start = min(past.place[commit] for commit in dropped)
    while start and past.entries[start - 1].commit_hash in past.merged:
        start -= 1
    return start


def _pieces(
    entries: Sequence[Entry], dropped: Collection[str], put: Mapping[str, Sequence[Draft]]
) -> list[_Piece]:
    pieces: list[_Piece] = []
    tools: str | None = None  # those that something left out was linked to, and nothing after it is yet

    def add(draft: Draft, *, is_new: bool) -> None:
        nonlocal tools
        pieces.append(_Piece(draft._replace(tools_hash=draft.tools_hash or tools), is_new))
        tools = None

    for entry in entries:
        if entry.commit_hash in dropped or entry.edit_target in dropped or entry.operation == MERGE:
            tools = entry.tools_hash or tools
            for draft in put.get(entry.commit_hash, ()):
                add(draft, is_new=True)
        else:
            add(Draft.of(entry), is_new=False)
    if tools is not None and pieces:
        last = pieces[-1]
        pieces[-1] = last._replace(draft=last.draft._replace(tools_hash=tools))
    return pieces


def _spliced(pieces: Sequence[_Piece], entries: Sequence[Entry]) -> Spliced:
    pairs = list(zip(pieces, entries, strict=True))
    copies = {
        piece.draft.source.removeprefix(COPIED): entry.commit_hash
        for piece, entry in pairs
        if piece.draft.source is not None
    }
    return Spliced(entries[-1], tuple(entry for piece, entry in pairs if piece.is_new), copies)


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
