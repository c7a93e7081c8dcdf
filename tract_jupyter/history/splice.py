"""Putting messages in the place of others in the middle of a history.

What stands before the first change stays as it is, with its hashes, so that a provider's cache holds up to there. All
that comes after it is placed anew, in the order of the context: what merges brought becomes plain commits, and the
merges themselves, which say nothing, are left out. Edits and annotations follow the copies of what they change; those
of messages that are gone go with them. Tags that were added later are added to the copies, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.engine.writer import COPIED, Plan
from tract_jupyter.storage.entry import MERGE, Draft
from tract_jupyter.storage.refs import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sqlalchemy import Connection

    from tract_jupyter.engine.tags import Tags
    from tract_jupyter.engine.writer import Writer
    from tract_jupyter.history.past import Past
    from tract_jupyter.storage.entry import Entry
    from tract_jupyter.storage.events import EventRows


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
